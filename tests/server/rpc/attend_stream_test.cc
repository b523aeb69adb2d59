// AttendStream over a real connection, above an engine that does as the test tells it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "grpcpp/grpcpp.h"
#include "server/rpc/attention_service.h"
#include "tests/testing/fake_engine.h"
#include "tests/testing/in_process_server.h"

namespace attnd {
namespace {

using testing::FakeEngine;
using ::testing::HasSubstr;
using testing::InProcessServer;

constexpr std::int64_t kChunkBytes = 100000;

std::string Bytes(std::size_t size, int seed) {
  std::string bytes(size, '\0');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i * 13 + i / 251 + seed);
  return bytes;
}

struct Tensor {
  v1::TensorId id;
  std::string bytes;
};

// One sequence of `seqlen` rows, 2 heads of 64, with lse.
struct StreamProblem {
  explicit StreamProblem(std::int64_t seqlen) {
    spec.set_batch_size(1);
    spec.set_seqlen_q(seqlen);
    spec.set_seqlen_k(seqlen);
    spec.set_num_heads(2);
    spec.set_head_dim(64);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    spec.set_return_lse(true);
    for (const v1::TensorId id : {v1::TENSOR_ID_Q, v1::TENSOR_ID_K, v1::TENSOR_ID_V}) {
      tensors.push_back({id, Bytes(seqlen * 2 * 64 * 4, id)});
    }
  }

  v1::AttentionSpec spec;
  std::vector<Tensor> tensors;
};

v1::AttendStreamRequest Header(const v1::AttentionSpec& spec) {
  v1::AttendStreamRequest message;
  *message.mutable_header() = spec;
  return message;
}

v1::AttendStreamRequest Chunk(v1::TensorId tensor, std::int64_t offset, std::string data) {
  v1::AttendStreamRequest message;
  message.mutable_chunk()->set_tensor(tensor);
  message.mutable_chunk()->set_offset_bytes(offset);
  message.mutable_chunk()->set_data(std::move(data));
  return message;
}

// All chunks of a problem, `chunk_bytes` each, in a random order.
std::vector<v1::AttendStreamRequest> ShuffledChunks(const StreamProblem& problem,
                                                    std::size_t chunk_bytes) {
  std::vector<v1::AttendStreamRequest> chunks;
  for (const Tensor& tensor : problem.tensors) {
    for (std::size_t offset = 0; offset < tensor.bytes.size(); offset += chunk_bytes) {
      chunks.push_back(Chunk(tensor.id, static_cast<std::int64_t>(offset),
                             tensor.bytes.substr(offset, chunk_bytes)));
    }
  }
  std::shuffle(chunks.begin(), chunks.end(), std::mt19937(5));
  return chunks;
}

class AttendStreamTest : public ::testing::Test {
 protected:
  using Stream = grpc::ClientReaderWriter<v1::AttendStreamRequest, v1::AttendStreamResponse>;

  static RpcOptions Options(absl::Duration idle_timeout = absl::Seconds(60)) {
    RpcOptions options;
    options.stream_chunk_bytes = kChunkBytes;
    options.stream_idle_timeout = idle_timeout;
    return options;
  }

  void Restart(const RpcOptions& options) {
    server_.reset();
    server_.emplace(&engine_, options, &metrics_);
  }

  std::unique_ptr<Stream> Open() { return server_->stub().AttendStream(&context_); }

  // Reads until the end.
  static grpc::Status Drain(Stream& stream) {
    v1::AttendStreamResponse response;
    while (stream.Read(&response)) {
    }
    return stream.Finish();
  }

  // Sends the messages, half-closes, and returns how the call ends.
  grpc::Status StatusOf(const std::vector<v1::AttendStreamRequest>& messages) {
    const std::unique_ptr<Stream> stream = Open();
    for (const v1::AttendStreamRequest& message : messages) {
      if (!stream->Write(message)) break;
    }
    stream->WritesDone();
    return Drain(*stream);
  }

  void ExpectRefused(const std::vector<v1::AttendStreamRequest>& messages,
                     const std::string& text) {
    const grpc::Status status = StatusOf(messages);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(status.error_message(), HasSubstr(text));
    EXPECT_EQ(engine_.num_jobs(), 0);
  }

  static void ExpectResultBytes(const std::string& bytes, OutputTensor tensor) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      ASSERT_EQ(static_cast<std::byte>(bytes[i]),
                FakeEngine::ResultByte(tensor, static_cast<std::int64_t>(i)));
    }
  }

  // Reads results until the end, checking that they are in order and as announced.
  static void ExpectResults(Stream& stream, std::size_t out_bytes, std::size_t lse_bytes) {
    v1::AttendStreamResponse response;
    ASSERT_TRUE(stream.Read(&response));
    EXPECT_EQ(response.result().out_bytes(), static_cast<std::int64_t>(out_bytes));
    EXPECT_EQ(response.result().lse_bytes(), static_cast<std::int64_t>(lse_bytes));
    std::string out;
    std::string lse;
    while (stream.Read(&response)) {
      ASSERT_TRUE(response.has_chunk());
      EXPECT_LE(response.chunk().data().size(), static_cast<std::size_t>(kChunkBytes));
      const bool is_out = response.chunk().tensor() == v1::TENSOR_ID_OUT;
      ASSERT_TRUE(is_out || response.chunk().tensor() == v1::TENSOR_ID_LSE);
      ASSERT_TRUE(!is_out || lse.empty()) << "out comes first";
      std::string& tensor = is_out ? out : lse;
      EXPECT_EQ(response.chunk().offset_bytes(), static_cast<std::int64_t>(tensor.size()));
      tensor += response.chunk().data();
    }
    ASSERT_EQ(out.size(), out_bytes);
    ASSERT_EQ(lse.size(), lse_bytes);
    ExpectResultBytes(out, OutputTensor::kOut);
    ExpectResultBytes(lse, OutputTensor::kLse);
    const grpc::Status status = stream.Finish();
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  // Calls are counted as they end, after their jobs are gone.
  void WaitUntilCounted(const std::string& code) const {
    const std::string line =
        absl::StrCat("attnd_requests_total{code=\"", code, "\",method=\"AttendStream\"} 1\n");
    while (metrics_.TextExposition().find(line) == std::string::npos)
      absl::SleepFor(absl::Milliseconds(1));
  }

  void WaitUntilNoJobs() const {
    while (engine_.num_jobs() > 0) absl::SleepFor(absl::Milliseconds(1));
  }

  Metrics metrics_{BuildInfo{"1.2.3-test", "cpu", "fake"}};
  FakeEngine engine_;
  std::optional<InProcessServer> server_{std::in_place, &engine_, Options(), &metrics_};
  grpc::ClientContext context_;
};

TEST_F(AttendStreamTest, MovesEveryByteBothWaysInAnyOrder) {
  const StreamProblem problem(1000);
  const std::unique_ptr<Stream> stream = Open();
  ASSERT_TRUE(stream->Write(Header(problem.spec)));
  for (const v1::AttendStreamRequest& chunk : ShuffledChunks(problem, 30001)) {
    ASSERT_TRUE(stream->Write(chunk));
  }
  // The stream is not half-closed: the last byte that was missing starts the computation.
  ExpectResults(*stream, problem.tensors[0].bytes.size(), 1000 * 2 * 4);
  EXPECT_EQ(engine_.last_input(InputTensor::kQ), problem.tensors[0].bytes);
  EXPECT_EQ(engine_.last_input(InputTensor::kK), problem.tensors[1].bytes);
  EXPECT_EQ(engine_.last_input(InputTensor::kV), problem.tensors[2].bytes);
  EXPECT_EQ(context_.GetServerTrailingMetadata().count("server-timing"), 1u);
}

TEST_F(AttendStreamTest, AProblemWithoutBytesNeedsNoChunk) {
  const StreamProblem problem(0);
  const std::unique_ptr<Stream> stream = Open();
  ASSERT_TRUE(stream->Write(Header(problem.spec)));
  ExpectResults(*stream, 0, 0);
}

TEST_F(AttendStreamTest, ReadsNothingBeforeItIsAdmitted) {
  engine_.Hold();
  const StreamProblem problem(64);
  const std::unique_ptr<Stream> stream = Open();
  ASSERT_TRUE(stream->Write(Header(problem.spec)));
  engine_.WaitUntilHeld(1);
  // A chunk that is refused once it is read.
  ASSERT_TRUE(stream->Write(Chunk(v1::TENSOR_ID_OUT, 0, "x")));
  EXPECT_EQ(engine_.num_jobs(), 0);
  engine_.Release();
  const grpc::Status status = Drain(*stream);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("chunk.tensor: is TENSOR_ID_OUT"));
  EXPECT_EQ(engine_.num_admitted(), 1);
}

TEST_F(AttendStreamTest, RefusesABrokenHeader) {
  StreamProblem problem(64);
  problem.spec.set_head_dim(7);
  ExpectRefused({Header(problem.spec)}, "head_dim: is 7, accepted: a multiple of 8");
  EXPECT_EQ(engine_.num_admitted(), 0);
}

TEST_F(AttendStreamTest, RefusesAChunkBeforeTheHeader) {
  ExpectRefused({Chunk(v1::TENSOR_ID_Q, 0, "abcd")},
                "message: is a chunk, accepted: the header first");
}

TEST_F(AttendStreamTest, RefusesAStreamWithoutMessages) {
  ExpectRefused({}, "message: there is none, accepted: a header, then chunks");
}

TEST_F(AttendStreamTest, RefusesAnEmptyMessage) {
  ExpectRefused({v1::AttendStreamRequest()}, "message: is empty");
}

TEST_F(AttendStreamTest, RefusesASecondHeader) {
  const StreamProblem problem(64);
  ExpectRefused({Header(problem.spec), Header(problem.spec)}, "message: is a second header");
}

TEST_F(AttendStreamTest, RefusesChunksThatOverlap) {
  const StreamProblem problem(64);
  ExpectRefused({Header(problem.spec), Chunk(v1::TENSOR_ID_K, 100, std::string(50, 'x')),
                 Chunk(v1::TENSOR_ID_K, 149, std::string(50, 'x'))},
                "a chunk of 50 bytes of k at offset 149 overlaps bytes 100 to 150");
}

TEST_F(AttendStreamTest, RefusesChunksThatRunPastTheEnd) {
  const StreamProblem problem(64);
  ExpectRefused(
      {Header(problem.spec), Chunk(v1::TENSOR_ID_V, 64 * 2 * 64 * 4 - 1, "xy")},
      "a chunk of 2 bytes of v at offset 32767 does not lie in the tensor, accepted: within its "
      "32768 bytes");
}

TEST_F(AttendStreamTest, RefusesChunksBeyondTheMessageLimit) {
  RpcOptions options = Options();
  options.max_message_bytes = 1 << 20;
  Restart(options);
  ExpectRefused(
      {Header(StreamProblem(6000).spec), Chunk(v1::TENSOR_ID_Q, 0, std::string(1500000, '\0'))},
      "max_message_bytes is 1048576");
}

TEST_F(AttendStreamTest, RefusesChunksThatNeverCome) {
  const StreamProblem problem(64);
  ExpectRefused({Header(problem.spec), Chunk(v1::TENSOR_ID_Q, 0, problem.tensors[0].bytes),
                 Chunk(v1::TENSOR_ID_K, 16, std::string(84, 'x'))},
                "k: bytes 0 to 16 of 32768 never came");
}

TEST_F(AttendStreamTest, EngineErrorsEndTheStream) {
  const StreamProblem problem(64);
  std::vector<v1::AttendStreamRequest> messages = ShuffledChunks(problem, 10000);
  messages.insert(messages.begin(), Header(problem.spec));
  engine_.FailSubmissions(absl::InternalError("the device is lost"));
  EXPECT_EQ(StatusOf(messages).error_code(), grpc::StatusCode::INTERNAL);
  EXPECT_EQ(engine_.num_jobs(), 0);
}

TEST_F(AttendStreamTest, AdmissionErrorsEndTheStream) {
  engine_.FailAdmissions(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(StatusOf({Header(StreamProblem(64).spec)}).error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(AttendStreamTest, AClientThatSendsNoHeaderIsGivenUp) {
  Restart(Options(absl::Milliseconds(50)));
  const std::unique_ptr<Stream> stream = Open();
  const grpc::Status status = Drain(*stream);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(), HasSubstr("no message came for 50ms (stream_idle_timeout)"));
}

TEST_F(AttendStreamTest, AClientThatStopsSendingIsGivenUp) {
  Restart(Options(absl::Milliseconds(50)));
  const StreamProblem problem(64);
  const std::unique_ptr<Stream> stream = Open();
  ASSERT_TRUE(stream->Write(Header(problem.spec)));
  ASSERT_TRUE(stream->Write(Chunk(v1::TENSOR_ID_Q, 0, "abcd")));
  EXPECT_EQ(Drain(*stream).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(engine_.num_jobs(), 0);
}

TEST_F(AttendStreamTest, AClientThatStopsReadingIsGivenUp) {
  Restart(Options(absl::Seconds(1)));
  const StreamProblem problem(64000);  // results of 32 MB, far beyond any window
  const std::vector<v1::AttendStreamRequest> chunks = ShuffledChunks(problem, 1 << 20);
  const std::unique_ptr<Stream> stream = Open();
  ASSERT_TRUE(stream->Write(Header(problem.spec)));
  for (const v1::AttendStreamRequest& chunk : chunks) ASSERT_TRUE(stream->Write(chunk));
  v1::AttendStreamResponse response;
  ASSERT_TRUE(stream->Read(&response));
  // Nothing more is read until the server has given up; only then does the job go.
  WaitUntilNoJobs();
  WaitUntilCounted("DEADLINE_EXCEEDED");
  EXPECT_EQ(Drain(*stream).error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(AttendStreamTest, AClientThatSendsTooSlowlyIsGivenUp) {
  RpcOptions options = Options(absl::Milliseconds(500));
  options.stream_min_bytes_per_second = 1 << 30;
  Restart(options);
  const StreamProblem problem(8000);  // made first: the server waits for its header no longer
  // 12 MB byte by byte: never idle, and not done before this deadline.
  context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  const std::unique_ptr<Stream> stream = Open();
  ASSERT_TRUE(stream->Write(Header(problem.spec)));
  for (std::int64_t offset = 0; stream->Write(Chunk(v1::TENSOR_ID_Q, offset, "a")); ++offset) {
  }
  const grpc::Status status = Drain(*stream);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_THAT(status.error_message(),
              AllOf(HasSubstr("the tensors came too slowly, the last message "),
                    HasSubstr(" ago; accepted: 12288000 bytes in "),
                    HasSubstr("(stream_min_bytes_per_second is 1073741824)")));
  EXPECT_EQ(engine_.num_jobs(), 0);
}

TEST_F(AttendStreamTest, AClientThatReadsTooSlowlyIsGivenUp) {
  RpcOptions options = Options(absl::Seconds(2));
  options.stream_min_bytes_per_second = 1 << 30;
  Restart(options);
  StreamProblem problem(2800);
  problem.spec.set_return_probs(true);  // 63 MB, far beyond any window
  const std::vector<v1::AttendStreamRequest> chunks = ShuffledChunks(problem, 1 << 20);
  const std::unique_ptr<Stream> stream = Open();
  ASSERT_TRUE(stream->Write(Header(problem.spec)));
  for (const v1::AttendStreamRequest& chunk : chunks) ASSERT_TRUE(stream->Write(chunk));
  // At 10 MB/s at most, so that it would take 6 s, and never idle: HTTP/2 grants room for a few
  // megabytes at a time.
  v1::AttendStreamResponse response;
  while (stream->Read(&response)) absl::SleepFor(absl::Milliseconds(10));
  EXPECT_EQ(stream->Finish().error_code(), grpc::StatusCode::CANCELLED);
  WaitUntilNoJobs();
  WaitUntilCounted("DEADLINE_EXCEEDED");
}

TEST_F(AttendStreamTest, DeadlinesEndTheStream) {
  context_.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(50));
  const std::unique_ptr<Stream> stream = Open();
  ASSERT_TRUE(stream->Write(Header(StreamProblem(64).spec)));
  EXPECT_EQ(Drain(*stream).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  WaitUntilNoJobs();
}

TEST_F(AttendStreamTest, CancelledStreamsGiveTheirJobBack) {
  const StreamProblem problem(64);
  const std::unique_ptr<Stream> stream = Open();
  ASSERT_TRUE(stream->Write(Header(problem.spec)));
  ASSERT_TRUE(stream->Write(Chunk(v1::TENSOR_ID_Q, 0, "abcd")));
  while (engine_.num_jobs() == 0) absl::SleepFor(absl::Milliseconds(1));
  context_.TryCancel();
  EXPECT_EQ(Drain(*stream).error_code(), grpc::StatusCode::CANCELLED);
  WaitUntilNoJobs();
  WaitUntilCounted("CANCELLED");
}

}  // namespace
}  // namespace attnd
