// The whole service in one process: gRPC, engine, device and kernels, against exact results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "server/engine/engine.h"
#include "tests/e2e/device_service.h"
#include "tests/testing/expected_result.h"
#include "tests/testing/problem.h"
#include "tests/testing/problem_request.h"

namespace attnd {
namespace {

using e2e::DeviceService;
using e2e::MemoryName;
using ::testing::AllOf;
using testing::ComputeExpected;
using ::testing::HasSubstr;
using testing::Layout;
using testing::Problem;
using testing::ProblemSpec;
using testing::RequestOf;
using testing::ResultsMatch;
using testing::ScoreArray;
using testing::Slopes;
using ::testing::StartsWith;
using testing::StoreResponse;

// Sends the request in one message.
grpc::Status AttendUnary(v1::AttentionService::Stub& stub, const v1::AttendRequest& request,
                         v1::AttendResponse* response) {
  grpc::ClientContext context;
  return stub.Attend(&context, request, response);
}

// Sends the request's tensors in chunks of `chunk_bytes`, the last tensor first, and gathers the
// results.
grpc::Status AttendStreamed(v1::AttentionService::Stub& stub, const v1::AttendRequest& request,
                            std::size_t chunk_bytes, v1::AttendResponse* response) {
  grpc::ClientContext context;
  const auto stream = stub.AttendStream(&context);
  v1::AttendStreamRequest header;
  *header.mutable_header() = request.spec();
  stream->Write(header);
  const std::pair<v1::TensorId, const std::string*> tensors[] = {
      {v1::TENSOR_ID_BIAS, &request.bias()},
      {v1::TENSOR_ID_MASK, &request.mask()},
      {v1::TENSOR_ID_V, &request.v()},
      {v1::TENSOR_ID_K, &request.k()},
      {v1::TENSOR_ID_Q, &request.q()}};
  for (const auto& [id, bytes] : tensors) {
    for (std::size_t offset = 0; offset < bytes->size(); offset += chunk_bytes) {
      v1::AttendStreamRequest message;
      message.mutable_chunk()->set_tensor(id);
      message.mutable_chunk()->set_offset_bytes(static_cast<std::int64_t>(offset));
      message.mutable_chunk()->set_data(bytes->substr(offset, chunk_bytes));
      stream->Write(message);
    }
  }
  v1::AttendStreamResponse part;
  while (stream->Read(&part)) {
    if (part.has_result()) *response->mutable_result() = part.result();
    const v1::TensorChunk& chunk = part.chunk();
    if (chunk.tensor() == v1::TENSOR_ID_OUT) response->mutable_out()->append(chunk.data());
    if (chunk.tensor() == v1::TENSOR_ID_LSE) response->mutable_lse()->append(chunk.data());
    if (chunk.tensor() == v1::TENSOR_ID_PROBS) response->mutable_probs()->append(chunk.data());
  }
  return stream->Finish();
}

std::vector<ProblemSpec> Problems() {
  const auto spec = [](std::string name) {
    ProblemSpec s;
    s.name = std::move(name);
    s.batch_size = 2;
    s.seqlen_q = 33;
    s.seqlen_k = 70;
    s.num_heads = 4;
    s.num_kv_heads = 2;
    s.head_dim = 32;
    return s;
  };
  std::vector<ProblemSpec> all;
  const auto add = [&](std::string name, const std::function<void(ProblemSpec&)>& change) {
    all.push_back(spec(std::move(name)));
    change(all.back());
  };
  using S = ProblemSpec&;
  add("Dense", [](S) {});
  add("Multihead", [](S s) { s.num_kv_heads = 4; });
  add("Multiquery", [](S s) { s.num_kv_heads = 1; });
  add("Bhsd", [](S s) { s.layout = Layout::kBhsd; });
  add("Float16", [](S s) { s.dtype = DataType::kFloat16; });
  add("BFloat16", [](S s) { s.dtype = DataType::kBFloat16; });
  add("BFloat16ToFloat32", [](S s) {
    s.dtype = DataType::kBFloat16;
    s.out_dtype = DataType::kFloat32;
  });
  add("HeadDimV", [](S s) { s.head_dim_v = 64; });
  add("Causal", [](S s) { s.causal = true; });
  add("CausalMoreQueriesThanKeys", [](S s) {
    s.causal = true;
    s.seqlen_q = 70;
    s.seqlen_k = 33;
  });
  add("Window", [](S s) {
    s.window_left = 7;
    s.window_right = 3;
  });
  add("Packed", [](S s) {
    s.layout = Layout::kPacked;
    s.batch_size = 3;
    s.rooms_q = {5, 0, 33};
    s.rooms_k = {70, 4, 1};
    s.causal = true;
  });
  add("Lengths", [](S s) {
    s.lengths_q = {33, 10};
    s.lengths_k = {0, 41};
  });
  add("MaskFull", [](S s) {
    s.mask = ScoreArray::kFull;
    s.mask_empty_rows = true;
  });
  add("MaskColumns", [](S s) { s.mask = ScoreArray::kColumnsOnly; });
  add("BiasPerHead", [](S s) { s.bias = ScoreArray::kPerHead; });
  add("BiasFloat32", [](S s) {
    s.dtype = DataType::kFloat16;
    s.bias = ScoreArray::kFull;
    s.bias_dtype = DataType::kFloat32;
  });
  add("AlibiPerHead", [](S s) { s.alibi = Slopes::kPerHead; });
  add("AlibiPerBatch", [](S s) { s.alibi = Slopes::kPerBatchAndHead; });
  add("SoftcapAndSinks", [](S s) {
    s.softcap = 5;
    s.sinks = true;
  });
  add("Scale", [](S s) { s.softmax_scale = 0.5f; });
  add("Probs", [](S s) { s.probs = true; });
  add("NoLse", [](S s) { s.lse = false; });
  add("OneQuery", [](S s) { s.seqlen_q = 1; });
  add("NoQueries", [](S s) { s.seqlen_q = 0; });
  add("NoKeys", [](S s) { s.seqlen_k = 0; });
  add("NoSequences", [](S s) { s.batch_size = 0; });
  return all;
}

// Problems follow one another in one service for each kind of memory, and find there what earlier
// ones have left.
class ProblemTest : public ::testing::TestWithParam<std::tuple<bool, ProblemSpec>> {
 protected:
  void SetUp() override {
    static auto* const kServices = new std::array<std::unique_ptr<DeviceService>, 2>();
    const bool unified_memory = std::get<bool>(GetParam());
    std::unique_ptr<DeviceService>& service = (*kServices)[unified_memory ? 1 : 0];
    if (service == nullptr) {
      std::unique_ptr<Device> device = e2e::DeviceOrSkip();
      if (device == nullptr) return;
      service = std::make_unique<DeviceService>(std::move(device), unified_memory, RpcOptions(),
                                                EngineOptions());
    }
    service_ = service.get();
  }

  DeviceService& service() { return *service_; }
  static const ProblemSpec& spec() { return std::get<ProblemSpec>(GetParam()); }

 private:
  DeviceService* service_ = nullptr;
};

TEST_P(ProblemTest, UnaryResultIsExactEnough) {
  Problem problem(spec());
  v1::AttendResponse response;
  const grpc::Status status = AttendUnary(service().stub(), RequestOf(problem), &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  StoreResponse(response, problem);
  EXPECT_TRUE(ResultsMatch(problem, ComputeExpected(problem)));
}

TEST_P(ProblemTest, StreamedResultHasTheSameBits) {
  Problem problem(spec());
  const v1::AttendRequest request = RequestOf(problem);
  v1::AttendResponse unary;
  ASSERT_TRUE(AttendUnary(service().stub(), request, &unary).ok());
  v1::AttendResponse streamed;
  const grpc::Status status = AttendStreamed(service().stub(), request, 4099, &streamed);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(streamed.out(), unary.out());
  EXPECT_EQ(streamed.lse(), unary.lse());
  EXPECT_EQ(streamed.probs(), unary.probs());
  EXPECT_EQ(service().used_bytes_when_idle(), 0);
}

TEST_P(ProblemTest, EveryAlgorithmIsExactEnough) {
  for (const v1::Algorithm algorithm :
       {v1::ALGORITHM_NAIVE, v1::ALGORITHM_TWO_PASS, v1::ALGORITHM_ONLINE, v1::ALGORITHM_FUSED,
        v1::ALGORITHM_REFERENCE}) {
    Problem problem(spec());
    v1::AttendRequest request = RequestOf(problem);
    request.mutable_spec()->set_algorithm(algorithm);
    v1::AttendResponse response;
    const grpc::Status status = AttendUnary(service().stub(), request, &response);
    if (status.error_code() == grpc::StatusCode::UNIMPLEMENTED) continue;
    ASSERT_TRUE(status.ok()) << v1::Algorithm_Name(algorithm) << ": " << status.error_message();
    StoreResponse(response, problem);
    EXPECT_TRUE(ResultsMatch(problem, ComputeExpected(problem))) << v1::Algorithm_Name(algorithm);
  }
}

INSTANTIATE_TEST_SUITE_P(Service, ProblemTest,
                         ::testing::Combine(::testing::ValuesIn(UnifiedMemoryKinds()),
                                            ::testing::ValuesIn(Problems())),
                         [](const auto& info) {
                           return MemoryName(std::get<bool>(info.param)) +
                                  std::get<ProblemSpec>(info.param).name;
                         });

ProblemSpec Small() {
  ProblemSpec spec;
  spec.batch_size = 1;
  spec.seqlen_q = 8;
  spec.seqlen_k = 64;
  spec.num_heads = 2;
  spec.num_kv_heads = 2;
  spec.head_dim = 32;
  return spec;
}

using ServiceTest = e2e::DeviceServiceTest;

INSTANTIATE_TEST_SUITE_P(Memory, ServiceTest, ::testing::ValuesIn(UnifiedMemoryKinds()),
                         [](const auto& memory) { return MemoryName(memory.param); });

TEST_P(ServiceTest, PartialResultsMergeToTheWhole) {
  DeviceService& service = Serve();
  Problem whole(Small());
  v1::AttendRequest request = RequestOf(whole);
  // The same queries over each half of the keys: k and v are [1, seqlen_k, heads, head_dim].
  v1::MergeRequest merge;
  merge.set_num_parts(2);
  merge.set_rows(8 * 2);
  merge.set_head_dim_v(32);
  for (const bool second : {false, true}) {
    v1::AttendRequest half = request;
    half.mutable_spec()->set_seqlen_k(32);
    half.mutable_spec()->clear_out_dtype();
    half.mutable_spec()->set_return_partial(true);
    const std::size_t bytes = request.k().size() / 2;
    half.set_k(request.k().substr(second ? bytes : 0, bytes));
    half.set_v(request.v().substr(second ? bytes : 0, bytes));
    v1::AttendResponse response;
    const grpc::Status status = AttendUnary(service.stub(), half, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    merge.mutable_out()->append(response.out());
    // lse is [heads, seqlen_q], the rows of out are [seqlen_q, heads].
    for (std::size_t row = 0; row < 8 * 2; ++row) {
      merge.mutable_lse()->append(response.lse(), (row % 2 * 8 + row / 2) * 4, 4);
    }
  }
  grpc::ClientContext context;
  v1::MergeResponse merged;
  const grpc::Status status = service.stub().Merge(&context, merge, &merged);
  ASSERT_TRUE(status.ok()) << status.error_message();
  v1::AttendResponse stored;
  stored.set_out(merged.out());
  for (std::size_t index = 0; index < 8 * 2; ++index) {
    stored.mutable_lse()->append(merged.lse(), (index % 8 * 2 + index / 8) * 4, 4);
  }
  StoreResponse(stored, whole);
  EXPECT_TRUE(ResultsMatch(whole, ComputeExpected(whole)));
}

TEST_P(ServiceTest, AnyMaskByteButZeroMeansMayAttend) {
  DeviceService& service = Serve();
  ProblemSpec spec = Small();
  spec.mask = ScoreArray::kFull;
  Problem problem(spec);
  v1::AttendRequest request = RequestOf(problem);
  v1::AttendResponse ones;
  ASSERT_TRUE(AttendUnary(service.stub(), request, &ones).ok());
  std::string& mask = *request.mutable_mask();
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0) mask[i] = static_cast<char>(1 + i % 255);
  }
  v1::AttendResponse others;
  ASSERT_TRUE(AttendUnary(service.stub(), request, &others).ok());
  EXPECT_EQ(others.out(), ones.out());
  EXPECT_EQ(others.lse(), ones.lse());
}

TEST_P(ServiceTest, DiagnosticsCountWhatIsNotFinite) {
  DeviceService& service = Serve();
  Problem problem(Small());
  problem.SetQ(0, 3, 1, 5, std::numeric_limits<float>::quiet_NaN());
  problem.SetV(0, 9, 0, 0, std::numeric_limits<float>::infinity());
  problem.SetV(0, 9, 0, 1, std::numeric_limits<float>::infinity());
  v1::AttendRequest request = RequestOf(problem);
  request.mutable_spec()->set_return_diagnostics(true);
  v1::AttendResponse response;
  const grpc::Status status = AttendUnary(service.stub(), request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(response.result().diagnostics().nonfinite_q(), 1);
  EXPECT_EQ(response.result().diagnostics().nonfinite_k(), 0);
  EXPECT_EQ(response.result().diagnostics().nonfinite_v(), 2);
  EXPECT_EQ(response.result().diagnostics().rows_fully_masked(), 0);
}

TEST_P(ServiceTest, TheSameRequestHasTheSameBitsUnderLoad) {
  DeviceService& service = Serve();
  Problem problem(Small());
  const v1::AttendRequest request = RequestOf(problem);
  v1::AttendResponse alone;
  ASSERT_TRUE(AttendUnary(service.stub(), request, &alone).ok());
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        v1::AttendResponse response;
        const grpc::Status status = AttendUnary(service.stub(), request, &response);
        ASSERT_TRUE(status.ok()) << status.error_message();
        EXPECT_EQ(response.out(), alone.out());
        EXPECT_EQ(response.lse(), alone.lse());
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(service.used_bytes_when_idle(), 0);
}

TEST_P(ServiceTest, WhatCanNeverFitIsRefusedByName) {
  DeviceService& service = Serve();
  v1::AttendStreamRequest header;
  Problem problem(Small());
  *header.mutable_header() = RequestOf(problem).spec();
  header.mutable_header()->set_seqlen_k(1 << 24);
  grpc::ClientContext context;
  const auto stream = service.stub().AttendStream(&context);
  stream->Write(header);
  v1::AttendStreamResponse response;
  EXPECT_FALSE(stream->Read(&response));
  const grpc::Status status = stream->Finish();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_THAT(
      status.error_message(),
      AllOf(StartsWith("header: needs "), HasSubstr(" bytes of staging memory, accepted: at most "),
            HasSubstr(" (staging_memory_bytes): q ")));
  EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.BadRequest"));
  // Under one reason, and not as invalid too.
  const std::string metrics = service.metrics.TextExposition();
  EXPECT_THAT(metrics, HasSubstr("attnd_rejected_total{reason=\"never_fits\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("attnd_rejected_total{reason=\"invalid\"} 0\n"));
}

// A stream that holds `bytes` of staging memory until it is cancelled.
class HoldingStream {
 public:
  HoldingStream(v1::AttentionService::Stub& stub, std::int64_t bytes)
      : stream_(stub.AttendStream(&context_)) {
    v1::AttendStreamRequest header;
    v1::AttentionSpec& spec = *header.mutable_header();
    spec.set_batch_size(1);
    spec.set_seqlen_q(1);
    spec.set_seqlen_k(bytes / 2 / 256);
    spec.set_num_heads(1);
    spec.set_head_dim(64);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    stream_->Write(header);
  }
  ~HoldingStream() {
    context_.TryCancel();
    v1::AttendStreamResponse response;
    while (stream_->Read(&response)) {
    }
    stream_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<v1::AttendStreamRequest, v1::AttendStreamResponse>>
      stream_;
};

// Staging memory but for 64 KiB.
std::int64_t AllButLittle(const DeviceService& service) {
  return service.device.info().staging_memory_bytes - (64 << 10);
}

TEST_P(ServiceTest, AFullServerMakesCallsWaitUntilTheirDeadline) {
  EngineOptions engine_options;
  engine_options.max_queue_wait = absl::Milliseconds(50);
  DeviceService& service = Serve(RpcOptions(), engine_options);
  Problem problem(Small());
  const v1::AttendRequest request = RequestOf(problem);
  {
    const HoldingStream holding(service.stub(), AllButLittle(service));
    while (service.used_bytes() == 0) absl::SleepFor(absl::Milliseconds(1));

    // Too large for what is left of the pool.
    v1::AttendRequest large = request;
    large.mutable_spec()->set_seqlen_k(1024);
    large.set_k(std::string(1024 * 2 * 32 * 4, '\0'));
    large.set_v(large.k());
    grpc::ClientContext context;
    v1::AttendResponse response;
    grpc::Status status = service.stub().Attend(&context, large, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED) << status.error_message();
    EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.RetryInfo"));
    EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);

    grpc::ClientContext hasty;
    hasty.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(20));
    EXPECT_EQ(service.stub().Attend(&hasty, large, &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
  }
  EXPECT_EQ(service.used_bytes_when_idle(), 0);
  v1::AttendResponse response;
  EXPECT_TRUE(AttendUnary(service.stub(), request, &response).ok());
}

// Two parts of `rows` rows of 64.
v1::MergeRequest MergeOfRows(std::int64_t rows) {
  v1::MergeRequest merge;
  merge.set_num_parts(2);
  merge.set_rows(rows);
  merge.set_head_dim_v(64);
  merge.set_out(std::string(2 * rows * 64 * 4, '\0'));
  merge.set_lse(std::string(2 * rows * 4, '\0'));
  return merge;
}

TEST_P(ServiceTest, AMergeThatWaitsBehindOthersEndsAtItsOwnDeadline) {
  DeviceService& service = Serve();
  const AttentionService& rpc = service.server->service();
  // Too large for what is left of the pool.
  const v1::MergeRequest merge = MergeOfRows(1024);
  std::vector<std::thread> patient;
  {
    const HoldingStream holding(service.stub(), AllButLittle(service));
    while (service.used_bytes() == 0) absl::SleepFor(absl::Milliseconds(1));
    for (int caller = 0; caller < 4; ++caller) {
      patient.emplace_back([&] {
        grpc::ClientContext context;
        v1::MergeResponse response;
        const grpc::Status status = service.stub().Merge(&context, merge, &response);
        EXPECT_TRUE(status.ok()) << status.error_message();
      });
    }
    const auto patient_bytes = static_cast<std::int64_t>(4 * 2 * merge.ByteSizeLong());
    while (rpc.waiting_bytes() < patient_bytes) absl::SleepFor(absl::Milliseconds(1));

    grpc::ClientContext hasty;
    hasty.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
    v1::MergeResponse response;
    EXPECT_EQ(service.stub().Merge(&hasty, merge, &response).error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
    // The client would say so by itself. The server has noticed when the bytes are gone, and the
    // memory that the others wait for does not come back before.
    const absl::Time give_up = absl::Now() + absl::Seconds(10);
    while (rpc.waiting_bytes() > patient_bytes && absl::Now() < give_up)
      absl::SleepFor(absl::Milliseconds(1));
    EXPECT_EQ(rpc.waiting_bytes(), patient_bytes);
  }
  for (std::thread& caller : patient) caller.join();
}

TEST_P(ServiceTest, ADrainingServerIsUnavailable) {
  DeviceService& service = Serve();
  service.engine->StartDraining();
  Problem problem(Small());
  v1::AttendResponse response;
  EXPECT_EQ(AttendUnary(service.stub(), RequestOf(problem), &response).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace attnd
