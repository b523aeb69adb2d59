// The service over a real connection, above an engine that does as the test tells it.
#include "server/rpc/attention_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <limits>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/notification.h"
#include "google/protobuf/message_lite.h"
#include "google/protobuf/text_format.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "server/engine/retry_info.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/in_process_server.h"

namespace {
// The size of the arrays that cannot be allocated; 0: all can.
std::atomic<std::size_t> failing_array_bytes = 0;
}  // namespace

void* operator new[](std::size_t size) {
  if (size > 0 && size == failing_array_bytes) throw std::bad_alloc();
  return operator new(size);
}
void operator delete[](void* memory) noexcept { operator delete(memory); }
void operator delete[](void* memory, std::size_t) noexcept { operator delete(memory); }

namespace attnd {
namespace {

using testing::FakeEngine;
using ::testing::HasSubstr;
using testing::InProcessServer;
using ::testing::Not;

std::string Bytes(std::size_t size, int seed) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 13 + i / 251 + seed);
  return bytes;
}

std::string ResultBytes(OutputTensor tensor, std::size_t size) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) {
    bytes[i] = static_cast<char>(FakeEngine::ResultByte(tensor, static_cast<std::int64_t>(i)));
  }
  return bytes;
}

// 2 sequences of `seqlen` queries and keys, 4 heads of 16, with lse.
v1::AttendRequest Request(std::int64_t seqlen) {
  v1::AttendRequest request;
  v1::AttentionSpec& spec = *request.mutable_spec();
  spec.set_batch_size(2);
  spec.set_seqlen_q(seqlen);
  spec.set_seqlen_k(seqlen);
  spec.set_num_heads(4);
  spec.set_num_kv_heads(2);
  spec.set_head_dim(16);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_return_lse(true);
  request.set_q(Bytes(2 * seqlen * 4 * 16 * 4, 1));
  request.set_k(Bytes(2 * seqlen * 2 * 16 * 4, 2));
  request.set_v(Bytes(2 * seqlen * 2 * 16 * 4, 3));
  return request;
}

// A unary call whose answer is not read until its end is asked for.
class UnreadCall {
 public:
  UnreadCall(const InProcessServer& server, const char* method,
             const google::protobuf::MessageLite& request)
      : stub_(server.NewChannel()) {
    const grpc::Slice slice(request.SerializeAsString());
    call_ = stub_.PrepareCall(&context_, method, &queue_);
    call_->StartCall(nullptr);
    Await();
    call_->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), nullptr);
    Await();
  }
  ~UnreadCall() { queue_.Shutdown(); }

  grpc::StatusCode Finish() {
    grpc::ByteBuffer answer;
    call_->Read(&answer, nullptr);
    Await();
    grpc::Status status;
    call_->Finish(&status, nullptr);
    Await();
    return status.error_code();
  }

 private:
  void Await() {
    void* tag = nullptr;
    bool ok = false;
    queue_.Next(&tag, &ok);
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

class AttentionServiceTest : public ::testing::Test {
 protected:
  static RpcOptions Options() {
    RpcOptions options;
    options.version = "1.2.3-test";
    options.stream_chunk_bytes = 100000;
    return options;
  }

  void Restart(const RpcOptions& options) {
    server_.reset();
    server_.emplace(&engine_, options, &metrics_);
  }

  // Starts again and gives results half a second to be read.
  void RestartWithLittlePatience() {
    RpcOptions options = Options();
    options.stream_idle_timeout = absl::Milliseconds(500);
    options.stream_min_bytes_per_second = 1 << 30;
    Restart(options);
  }

  // How a unary call ends whose request has these bytes.
  grpc::Status CallWithBytes(const std::string& method, const std::string& bytes) {
    const grpc::Slice slice(bytes);
    const grpc::ByteBuffer request(&slice, 1);
    grpc::ClientContext context;
    grpc::ByteBuffer response;
    grpc::Status status;
    absl::Notification done;
    grpc::GenericStub(server_->NewChannel())
        .UnaryCall(&context, "/attnd.v1.AttentionService/" + method, {}, &request, &response,
                   [&](grpc::Status s) {
                     status = std::move(s);
                     done.Notify();
                   });
    done.WaitForNotification();
    return status;
  }

  // Waits until a result is being sent and tells its bytes.
  std::int64_t WaitForResult() {
    const AttentionService& service = server_->service();
    while (service.sending_bytes() == 0) absl::SleepFor(absl::Milliseconds(1));
    return service.sending_bytes();
  }

  // Waits until the service holds nothing on behalf of a call.
  void WaitUntilNothingIsHeld() {
    const AttentionService& service = server_->service();
    while (service.sending_bytes() + service.waiting_bytes() + engine_.num_jobs() > 0)
      absl::SleepFor(absl::Milliseconds(1));
  }

  v1::AttentionService::Stub& stub() { return server_->stub(); }

  grpc::Status Attend(const v1::AttendRequest& request, v1::AttendResponse* response) {
    grpc::ClientContext context;
    return stub().Attend(&context, request, response);
  }

  Metrics metrics_{BuildInfo{"1.2.3-test", "cpu", "fake"}};
  FakeEngine engine_;
  std::optional<InProcessServer> server_{std::in_place, &engine_, Options(), &metrics_};
};

TEST_F(AttentionServiceTest, AttendMovesEveryByteBothWays) {
  for (const std::int64_t seqlen : {1, 8, 1000}) {
    v1::AttendRequest request = Request(seqlen);
    request.mutable_spec()->set_return_diagnostics(true);
    v1::ScoreShape& mask = *request.mutable_spec()->mutable_mask_shape();
    mask.set_batch(1);
    mask.set_heads(1);
    mask.set_rows(1);
    mask.set_cols(seqlen);
    *request.mutable_spec()->mutable_bias_shape() = mask;
    request.set_mask(std::string(seqlen, '\1'));
    request.set_bias(Bytes(seqlen * 4, 5));
    v1::AttendResponse response;
    const grpc::Status status = Attend(request, &response);
    ASSERT_TRUE(status.ok()) << status.error_message();
    EXPECT_EQ(engine_.last_input(InputTensor::kQ), request.q());
    EXPECT_EQ(engine_.last_input(InputTensor::kK), request.k());
    EXPECT_EQ(engine_.last_input(InputTensor::kV), request.v());
    EXPECT_EQ(engine_.last_input(InputTensor::kMask), request.mask());
    EXPECT_EQ(engine_.last_input(InputTensor::kBias), request.bias());
    EXPECT_EQ(response.out(), ResultBytes(OutputTensor::kOut, request.q().size()));
    EXPECT_EQ(response.lse(), ResultBytes(OutputTensor::kLse, 2 * 4 * seqlen * 4));
    EXPECT_EQ(response.probs(), "");
    EXPECT_EQ(response.result().out_bytes(), static_cast<std::int64_t>(response.out().size()));
    EXPECT_EQ(response.result().lse_bytes(), static_cast<std::int64_t>(response.lse().size()));
    EXPECT_EQ(response.result().probs_bytes(), 0);
    EXPECT_EQ(response.result().out_dtype(), v1::DATA_TYPE_FLOAT32);
    EXPECT_NE(response.result().kernel(), "");
    EXPECT_EQ(response.result().diagnostics().nonfinite_v(), 9);
    EXPECT_EQ(response.result().timings().queue_seconds(), 0.001);
    EXPECT_GE(response.result().timings().copy_in_seconds(), 0.002);
    EXPECT_EQ(response.result().timings().compute_seconds(), 0.003);
    EXPECT_EQ(response.result().timings().copy_out_seconds(), 0.004);
    EXPECT_GT(response.result().timings().total_seconds(), 0.0);
  }
}

TEST_F(AttentionServiceTest, AttendTellsItsTimingsInTrailingMetadata) {
  grpc::ClientContext context;
  v1::AttendResponse response;
  ASSERT_TRUE(stub().Attend(&context, Request(1), &response).ok());
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("server-timing");
  ASSERT_NE(found, trailers.end());
  EXPECT_THAT(std::string(found->second.data(), found->second.size()),
              ::testing::MatchesRegex(
                  "queue;dur=1.000, copy_in;dur=2.[0-9]+, compute;dur=3.000, copy_out;dur=4.000, "
                  "total;dur=[0-9]+.[0-9]+"));
}

TEST_F(AttentionServiceTest, AttendRefusesBeforeMemoryIsReserved) {
  v1::AttendRequest request = Request(8);
  request.mutable_k()->pop_back();
  v1::AttendResponse response;
  const grpc::Status status = Attend(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("k: 2047 bytes, the spec needs 2048"));
  EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.BadRequest"));
  EXPECT_EQ(engine_.num_admitted(), 0);
}

TEST_F(AttentionServiceTest, AttendWithoutASpecIsRefused) {
  v1::AttendResponse response;
  const grpc::Status status = Attend(v1::AttendRequest(), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("spec: is missing"));
}

TEST_F(AttentionServiceTest, AttendRefusesResultsThatAreTooLargeForAMessage) {
  RpcOptions options = Options();
  options.max_message_bytes = 1 << 20;
  Restart(options);
  v1::AttendRequest request = Request(64);
  request.mutable_spec()->set_return_probs(true);
  request.mutable_spec()->set_seqlen_k(1024);
  request.mutable_k()->resize(2 * 1024 * 2 * 16 * 4);
  request.mutable_v()->resize(2 * 1024 * 2 * 16 * 4);
  v1::AttendResponse response;
  const grpc::Status status = Attend(request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << status.error_message();
  EXPECT_THAT(status.error_message(),
              HasSubstr("spec: asks for results of 2131968 bytes, accepted in one message: at most "
                        "1048576; AttendStream has no such limit"));
}

TEST_F(AttentionServiceTest, EngineErrorsKeepTheirCodeAndRetryDelay) {
  engine_.FailAdmissions(
      WithRetryDelay(absl::ResourceExhaustedError("the queue is full"), absl::Milliseconds(250)));
  grpc::ClientContext context;
  v1::AttendResponse response;
  const grpc::Status status = stub().Attend(&context, Request(1), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status.error_message(), "the queue is full");
  EXPECT_THAT(status.error_details(), HasSubstr("google.rpc.RetryInfo"));
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("grpc-retry-pushback-ms");
  ASSERT_NE(found, trailers.end());
  EXPECT_EQ(std::string(found->second.data(), found->second.size()), "250");

  engine_.FailAdmissions(absl::OkStatus());
  for (const absl::Status& error :
       {absl::InternalError("device"), absl::UnavailableError("draining"),
        absl::DeadlineExceededError("late"), absl::CancelledError("gone")}) {
    engine_.FailSubmissions(error);
    EXPECT_EQ(static_cast<int>(Attend(Request(1), &response).error_code()),
              static_cast<int>(error.code()));
    EXPECT_EQ(engine_.num_jobs(), 0);
  }
}

TEST_F(AttentionServiceTest, RequestsThatWaitAreBoundedInBytes) {
  RpcOptions options = Options();
  options.max_waiting_request_bytes = 100000;
  Restart(options);
  engine_.Hold();
  std::thread waiting([&] {
    v1::AttendResponse response;
    EXPECT_TRUE(Attend(Request(64), &response).ok());
  });
  engine_.WaitUntilHeld(1);
  const std::int64_t waiting_bytes = server_->service().waiting_bytes();
  EXPECT_GT(waiting_bytes, 64 * 1024);
  EXPECT_THAT(metrics_.TextExposition(),
              HasSubstr(absl::StrCat("attnd_waiting_request_bytes ", waiting_bytes, "\n")));
  grpc::ClientContext context;
  v1::AttendResponse response;
  const grpc::Status status = stub().Attend(&context, Request(64), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("bytes wait for memory already, accepted: at most 100000 "
                        "(max_waiting_request_bytes)"));
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
  EXPECT_THAT(metrics_.TextExposition(),
              HasSubstr("attnd_rejected_total{reason=\"waiting_bytes\"} 1\n"));
  engine_.Release();
  waiting.join();
  EXPECT_EQ(server_->service().waiting_bytes(), 0);
}

TEST_F(AttentionServiceTest, ARequestTooLargeToEverWaitIsNotToldToComeBack) {
  RpcOptions options = Options();
  options.max_waiting_request_bytes = 60000;
  Restart(options);
  grpc::ClientContext context;
  v1::AttendResponse response;
  const v1::AttendRequest request = Request(64);
  const grpc::Status status = stub().Attend(&context, request, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            absl::StrCat("message: takes ", request.ByteSizeLong(),
                         " bytes while it waits for memory, accepted: at most 60000 "
                         "(max_waiting_request_bytes)"));
  EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 0u);
  EXPECT_THAT(status.error_details(), Not(HasSubstr("google.rpc.RetryInfo")));
}

TEST_F(AttentionServiceTest, AResultThatIsNotReadIsGivenUp) {
  RestartWithLittlePatience();
  // 16 MB of results, far beyond any window.
  UnreadCall call(*server_, "/attnd.v1.AttentionService/Attend", Request(32000));
  WaitForResult();
  EXPECT_EQ(engine_.num_jobs(), 1);
  WaitUntilNothingIsHeld();
  EXPECT_EQ(call.Finish(), grpc::StatusCode::CANCELLED);
}

TEST_F(AttentionServiceTest, WhatTheEngineNeverTakesIsBlamedOnItsField) {
  engine_.FailAdmissions(absl::InvalidArgumentError("needs 9 bytes, accepted: at most 8"));
  v1::AttendResponse response;
  const grpc::Status attend = Attend(Request(1), &response);
  EXPECT_EQ(attend.error_message(), "spec: needs 9 bytes, accepted: at most 8");
  EXPECT_THAT(attend.error_details(), HasSubstr("google.rpc.BadRequest"));
}

TEST_F(AttentionServiceTest, DeadlinesReachTheEngine) {
  engine_.Hold();
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  v1::AttendResponse response;
  EXPECT_EQ(stub().Attend(&context, Request(1), &response).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  // The server's clock for the call started later than the client's.
  engine_.WaitUntilHeldAreStopped();
  engine_.Release();
  EXPECT_EQ(engine_.num_admitted(), 0);
}

TEST_F(AttentionServiceTest, CancellationReachesTheEngine) {
  engine_.Hold();
  grpc::ClientContext context;
  std::thread call([&] {
    v1::AttendResponse response;
    EXPECT_EQ(stub().Attend(&context, Request(1), &response).error_code(),
              grpc::StatusCode::CANCELLED);
  });
  engine_.WaitUntilHeld(1);
  context.TryCancel();
  call.join();
  engine_.WaitUntilHeldAreStopped();
  engine_.Release();
  EXPECT_EQ(engine_.num_admitted(), 0);
}

TEST_F(AttentionServiceTest, MessagesBeyondTheLimitAreRefused) {
  RpcOptions options = Options();
  options.max_message_bytes = 1 << 20;
  Restart(options);
  v1::AttendResponse response;
  const v1::AttendRequest too_large = Request(1500);
  const grpc::Status status = Attend(too_large, &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            absl::StrCat("message: is of ", too_large.ByteSizeLong(),
                         " bytes, accepted: at most 1114112 (max_message_bytes is 1048576); "
                         "AttendStream takes larger problems in chunks"));
  // Too large even to be received.
  EXPECT_EQ(Attend(Request(3000), &response).error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(AttentionServiceTest, CompressedMessagesAreRefused) {
  grpc::ClientContext context;
  context.set_compression_algorithm(GRPC_COMPRESS_GZIP);
  v1::AttendResponse response;
  EXPECT_EQ(stub().Attend(&context, Request(100), &response).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(AttentionServiceTest, TellsWhatItIs) {
  grpc::ClientContext context;
  v1::GetServerInfoResponse info;
  ASSERT_TRUE(stub().GetServerInfo(&context, {}, &info).ok());
  EXPECT_EQ(info.version(), "1.2.3-test");
  EXPECT_EQ(info.backend(), "cpu");
  EXPECT_EQ(info.device_memory_bytes(), 1 << 20);
  EXPECT_EQ(info.staging_memory_bytes(), 1 << 20);
  EXPECT_EQ(info.max_message_bytes(), 64 << 20);
  EXPECT_EQ(info.max_probs_bytes(), 64 << 20);
  EXPECT_EQ(info.stream_chunk_bytes(), 100000);
  ASSERT_GT(info.kernels_size(), 0);
  for (const v1::KernelInfo& kernel : info.kernels()) {
    EXPECT_NE(kernel.name(), "");
    EXPECT_NE(kernel.algorithm(), v1::ALGORITHM_UNSPECIFIED) << kernel.name();
  }
}

TEST_F(AttentionServiceTest, AnswersNoQuestionThatIsNotAMessage) {
  const grpc::Status status = CallWithBytes("GetServerInfo", "\x08");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(),
            "request: is not a protobuf message: a varint is cut off at byte 1 of 1");
  EXPECT_THAT(
      metrics_.TextExposition(),
      HasSubstr("attnd_requests_total{code=\"INVALID_ARGUMENT\",method=\"GetServerInfo\"} 1"));
  EXPECT_THAT(metrics_.TextExposition(), HasSubstr("attnd_rejected_total{reason=\"invalid\"} 1"));
}

TEST_F(AttentionServiceTest, CountsRequestsAndBytes) {
  v1::AttendResponse response;
  const v1::AttendRequest request = Request(8);
  ASSERT_TRUE(Attend(request, &response).ok());
  EXPECT_FALSE(Attend(v1::AttendRequest(), &response).ok());
  const std::string text = metrics_.TextExposition();
  EXPECT_THAT(text, HasSubstr(absl::StrCat("direction=\"in\",transport=\"grpc\"} ",
                                           request.ByteSizeLong())));
  EXPECT_THAT(text,
              HasSubstr("attnd_requests_total{code=\"INVALID_ARGUMENT\",method=\"Attend\"} 1"));
  EXPECT_THAT(text, HasSubstr("attnd_requests_total{code=\"OK\",method=\"Attend\"} 1"));
  EXPECT_THAT(text, HasSubstr("attnd_rejected_total{reason=\"invalid\"} 1"));
}

v1::MergeRequest MergeOf(const std::vector<float>& out, const std::vector<float>& lse,
                         std::int64_t parts) {
  v1::MergeRequest request;
  request.set_num_parts(parts);
  request.set_rows(static_cast<std::int64_t>(lse.size()) / parts);
  request.set_head_dim_v(static_cast<std::int64_t>(out.size() / lse.size()));
  request.set_out(out.data(), out.size() * sizeof(float));
  request.set_lse(lse.data(), lse.size() * sizeof(float));
  return request;
}

float FloatAt(const std::string& bytes, std::size_t index) {
  float value;
  std::memcpy(&value, bytes.data() + index * sizeof(float), sizeof(float));
  return value;
}

TEST_F(AttentionServiceTest, MergesPartialResults) {
  // Row 0: two equal parts. Row 1: the second part is empty, and its out, which must not be read,
  // NaN.
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const v1::MergeRequest request =
      MergeOf({1, 2, 5, 6, 3, 4, nan, nan}, {0, 7, 0, -std::numeric_limits<float>::infinity()}, 2);
  grpc::ClientContext context;
  v1::MergeResponse response;
  const grpc::Status status = stub().Merge(&context, request, &response);
  ASSERT_TRUE(status.ok()) << status.error_message();
  ASSERT_EQ(response.out().size(), 16u);
  ASSERT_EQ(response.lse().size(), 8u);
  EXPECT_EQ(FloatAt(response.out(), 0), 2);
  EXPECT_EQ(FloatAt(response.out(), 1), 3);
  EXPECT_EQ(FloatAt(response.out(), 2), 5);
  EXPECT_EQ(FloatAt(response.out(), 3), 6);
  EXPECT_NEAR(FloatAt(response.lse(), 0), std::log(2.0), 1e-6);
  EXPECT_EQ(FloatAt(response.lse(), 1), 7);
}

TEST_F(AttentionServiceTest, MergeTellsItsTimingsInItsReplyAndInTrailingMetadata) {
  grpc::ClientContext context;
  v1::MergeResponse response;
  ASSERT_TRUE(stub().Merge(&context, MergeOf({1, 2, 3, 4}, {0, 0}, 2), &response).ok());
  const v1::Timings& timings = response.timings();
  EXPECT_GE(timings.queue_seconds(), 0.001);
  EXPECT_GT(timings.copy_in_seconds(), 0);
  EXPECT_EQ(timings.compute_seconds(), 0.003);
  EXPECT_EQ(timings.copy_out_seconds(), 0);
  EXPECT_GT(timings.total_seconds(), 0);
  const auto& trailers = context.GetServerTrailingMetadata();
  const auto found = trailers.find("server-timing");
  ASSERT_NE(found, trailers.end());
  EXPECT_EQ(std::string(found->second.data(), found->second.size()),
            absl::StrFormat("queue;dur=%.3f, copy_in;dur=%.3f, compute;dur=3.000, "
                            "copy_out;dur=0.000, total;dur=%.3f",
                            1e3 * timings.queue_seconds(), 1e3 * timings.copy_in_seconds(),
                            1e3 * timings.total_seconds()));
}

TEST_F(AttentionServiceTest, AMergeThatIsNotReadIsGivenUp) {
  RestartWithLittlePatience();
  constexpr int kRows = 64000;
  const v1::MergeRequest request =
      MergeOf(std::vector<float>(64 * kRows, 1), std::vector<float>(kRows, 0), 1);
  UnreadCall call(*server_, "/attnd.v1.AttentionService/Merge", request);
  EXPECT_EQ(WaitForResult(), 65 * kRows * 4);
  WaitUntilNothingIsHeld();
  EXPECT_EQ(call.Finish(), grpc::StatusCode::CANCELLED);
}

TEST_F(AttentionServiceTest, MergeRefusesWhatDoesNotFit) {
  const v1::MergeRequest sound = MergeOf({1, 2, 3, 4}, {0, 0}, 2);
  const auto error = [&](const std::function<void(v1::MergeRequest&)>& change) {
    v1::MergeRequest request = sound;
    change(request);
    grpc::ClientContext context;
    v1::MergeResponse response;
    const grpc::Status status = stub().Merge(&context, request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    return status.error_message();
  };
  using R = v1::MergeRequest&;
  EXPECT_EQ(error([](R r) { r.set_num_parts(0); }), "num_parts: is 0, accepted: 1 to 1024");
  EXPECT_EQ(error([](R r) { r.set_num_parts(1025); }), "num_parts: is 1025, accepted: 1 to 1024");
  EXPECT_EQ(error([](R r) { r.set_rows(-1); }), "rows: is -1, accepted: 0 to 1099511627776");
  EXPECT_EQ(error([](R r) { r.set_head_dim_v(65537); }),
            "head_dim_v: is 65537, accepted: 1 to 65536");
  EXPECT_EQ(
      error([](R r) { r.mutable_out()->pop_back(); }),
      "out: 15 bytes, the request needs 16 (num_parts x rows x head_dim_v x 4 bytes of float32)");
  EXPECT_EQ(error([](R r) { r.mutable_lse()->push_back('x'); }),
            "lse: 9 bytes, the request needs 8 (num_parts x rows x 4 bytes of float32)");
  EXPECT_THAT(error([](R r) {
                r.set_num_parts(1024);
                r.set_rows(std::int64_t{1} << 40);
                r.set_head_dim_v(65536);
              }),
              HasSubstr("out: 16 bytes, the request needs more than 63 bits can count"));
  EXPECT_EQ(error([](R r) { r.set_out_dtype(static_cast<v1::DataType>(12)); }),
            "out_dtype: is the unknown value 12, accepted: DATA_TYPE_FLOAT32, DATA_TYPE_FLOAT16, "
            "DATA_TYPE_BFLOAT16; or not set");
}

// Also where the first copy holds nothing: fields 4 (out) and 1 (num_parts).
TEST_F(AttentionServiceTest, MergeRefusesFieldsGivenTwice) {
  EXPECT_EQ(CallWithBytes("Merge", std::string("\x22\x00\x22\x01x", 5)).error_message(),
            "out: is given twice, accepted: once");
  EXPECT_EQ(CallWithBytes("Merge", "\x08\x01\x08\x02").error_message(),
            "num_parts: is given twice, accepted: once");
}

TEST_F(AttentionServiceTest, MergeRefusesMessagesBeyondTheLimit) {
  RpcOptions options = Options();
  options.max_message_bytes = 1 << 20;
  Restart(options);
  const std::vector<float> lse(20000);
  grpc::ClientContext context;
  v1::MergeResponse response;
  const grpc::Status status =
      stub().Merge(&context, MergeOf(std::vector<float>(320000), lse, 2), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("max_message_bytes is 1048576"));
}

TEST_F(AttentionServiceTest, AMergeThatTheEngineNeverTakesIsBlamedOnItsParts) {
  engine_.FailAdmissions(absl::InvalidArgumentError("needs 9 bytes, accepted: at most 8"));
  grpc::ClientContext context;
  v1::MergeResponse response;
  const grpc::Status status = stub().Merge(&context, MergeOf({1, 2, 3, 4}, {0, 0}, 2), &response);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "out: needs 9 bytes, accepted: at most 8");
}

TEST_F(AttentionServiceTest, AMergeWithoutMemoryEndsAloneAndMayComeBack) {
  const v1::MergeRequest request = MergeOf(std::vector<float>(74), {0, 0}, 2);
  v1::MergeResponse response;
  {
    grpc::ClientContext context;
    failing_array_bytes = request.out().size() + request.lse().size();
    const grpc::Status status = stub().Merge(&context, request, &response);
    failing_array_bytes = 0;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(status.error_message(), "out of host memory");
    EXPECT_EQ(context.GetServerTrailingMetadata().count("grpc-retry-pushback-ms"), 1u);
  }
  grpc::ClientContext context;
  EXPECT_TRUE(stub().Merge(&context, request, &response).ok());
}

TEST_F(AttentionServiceTest, MergeOfNoRowsIsEmpty) {
  v1::MergeRequest request;
  request.set_num_parts(3);
  request.set_head_dim_v(8);
  grpc::ClientContext context;
  v1::MergeResponse response;
  EXPECT_TRUE(stub().Merge(&context, request, &response).ok());
  EXPECT_EQ(response.out(), "");
}

}  // namespace
}  // namespace attnd
