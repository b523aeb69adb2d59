#include "attnd/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/client/fake_attention_service.h"

namespace attnd {
namespace {

using ::testing::Each;
using testing::FakeAttentionService;
using testing::FakeServer;
using ::testing::HasSubstr;
using testing::Refusal;

constexpr std::int64_t kMiB = 1 << 20;

// A problem whose tensors hold recognisable bytes.
struct Problem {
  explicit Problem(std::int64_t seqlen, std::int64_t head_dim = 8) {
    spec.set_batch_size(2);
    spec.set_seqlen_q(seqlen);
    spec.set_seqlen_k(seqlen);
    spec.set_num_heads(3);
    spec.set_head_dim(head_dim);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    q.resize(2 * seqlen * 3 * head_dim);
    std::iota(q.begin(), q.end(), 1.0f);
    k.assign(q.size(), 2.5f);
    v.assign(q.size(), -7.0f);
  }

  AttendInputs inputs() const {
    return {.q = std::as_bytes(std::span(q)),
            .k = std::as_bytes(std::span(k)),
            .v = std::as_bytes(std::span(v)),
            .mask = std::as_bytes(std::span(mask))};
  }

  v1::AttentionSpec spec;
  std::vector<float> q, k, v;
  std::vector<std::uint8_t> mask;
};

std::string Bytes(const std::vector<float>& values) {
  return std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

std::vector<float> Floats(const TensorBytes& tensor) {
  const auto values = tensor.As<float>();
  return {values.begin(), values.end()};
}

class ClientTest : public ::testing::Test {
 protected:
  std::unique_ptr<Client> Connect(ClientOptions options = {}) {
    options.retry.initial_backoff = absl::Microseconds(10);
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(server_.target(), options);
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  FakeAttentionService service_{64 * kMiB};
  FakeServer server_{service_};
};

TEST_F(ClientTest, AttendSendsSpecAndTensorsUnchanged) {
  Problem problem(5);
  problem.mask.assign(25, 1);
  problem.spec.mutable_mask_shape()->set_batch(1);
  problem.spec.set_causal(true);
  problem.spec.add_sinks(0.5f);
  const auto reply = Connect()->Attend(problem.spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  const v1::AttendRequest sent = service_.last_request();
  EXPECT_EQ(sent.spec().SerializeAsString(), problem.spec.SerializeAsString());
  EXPECT_EQ(sent.q(), Bytes(problem.q));
  EXPECT_EQ(sent.k(), Bytes(problem.k));
  EXPECT_EQ(sent.v(), Bytes(problem.v));
  EXPECT_EQ(sent.mask(), std::string(25, '\1'));
  EXPECT_EQ(sent.bias(), "");
}

TEST_F(ClientTest, AttendReturnsTensorsAndTimings) {
  Problem problem(5);
  problem.spec.set_return_lse(true);
  problem.spec.set_return_probs(true);
  const auto reply = Connect()->Attend(problem.spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Floats(reply->out), problem.q);
  ASSERT_EQ(reply->lse.As<float>().size(), 30u);
  EXPECT_EQ(reply->lse.As<float>()[29], 29.0f);
  EXPECT_THAT(reply->probs.As<char>(), Each('\1'));
  EXPECT_EQ(reply->result.kernel(), "fake");
  EXPECT_EQ(reply->result.timings().compute_seconds(), 0.25);
  EXPECT_GT(reply->round_trip_seconds, 0);
  EXPECT_EQ(reply->attempts, 1);
  EXPECT_FALSE(reply->streamed);
}

TEST_F(ClientTest, AttendWritesIntoTheCallersMemory) {
  const Problem problem(5);
  std::vector<float> out(problem.q.size());
  const auto reply = Connect()->Attend(problem.spec, problem.inputs(), {},
                                       {.out = std::as_writable_bytes(std::span(out))});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(out, problem.q);
  EXPECT_EQ(reply->out.As<float>().data(), out.data());
}

TEST_F(ClientTest, AttendWithoutRowsGivesAnEmptyResult) {
  const Problem problem(0);
  const auto client = Connect();
  for (const CallKind kind : {CallKind::kUnary, CallKind::kStream}) {
    const auto reply = client->Attend(problem.spec, problem.inputs(), {.kind = kind});
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_TRUE(reply->out.empty());
  }
}

TEST_F(ClientTest, ADestinationOfTheWrongSizeIsRefusedBeforeTheCall) {
  const Problem problem(5);
  std::vector<float> out(problem.q.size() - 1);
  const auto reply = Connect()->Attend(problem.spec, problem.inputs(), {},
                                       {.out = std::as_writable_bytes(std::span(out))});
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(reply.status().message(), "out: the destination has 956 bytes, the result has 960");
  EXPECT_EQ(service_.calls(), 0);
}

TEST_F(ClientTest, ErrorsKeepTheServersCodeTextAndDetails) {
  const std::string url = "type.googleapis.com/google.rpc.BadRequest";
  service_.RefuseNext({{.status = {grpc::StatusCode::INVALID_ARGUMENT, "k: head_dim 96, q has 128",
                                   testing::StatusDetails(url, "field violations")}}});
  const Problem problem(5);
  const absl::Status status = Connect()->Attend(problem.spec, problem.inputs()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "k: head_dim 96, q has 128");
  ASSERT_TRUE(status.GetPayload(url).has_value());
  EXPECT_EQ(*status.GetPayload(url), "field violations");
}

TEST_F(ClientTest, ConnectSaysThatNothingAnswers) {
  std::string target;
  {
    FakeServer gone(service_);
    target = gone.target();
  }
  const auto client = Client::Connect(target, {.retry = {.max_attempts = 1}});
  EXPECT_EQ(client.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(client.status().message()), HasSubstr("onnect"));
}

TEST_F(ClientTest, ConnectRefusesOptionsOutOfRange) {
  EXPECT_EQ(Client::Connect(server_.target(), {.retry = {.max_attempts = 0}}).status().message(),
            "retry.max_attempts: 0, at least 1 accepted");
  EXPECT_EQ(Client::Connect(server_.target(), {.chunk_bytes = 0}).status().message(),
            "chunk_bytes: 0, 1 to 1073741824 accepted");
}

TEST_F(ClientTest, UnavailableIsRepeatedUntilItSucceeds) {
  const Refusal refusal{.status = {grpc::StatusCode::UNAVAILABLE, "draining"}};
  const Problem problem(5);
  const auto client = Connect();
  for (const CallKind kind : {CallKind::kUnary, CallKind::kStream}) {
    service_.RefuseNext({refusal, refusal, refusal});
    const auto reply = client->Attend(problem.spec, problem.inputs(), {.kind = kind});
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->attempts, 4);
    EXPECT_EQ(Floats(reply->out), problem.q);
  }
}

TEST_F(ClientTest, UnavailableIsRepeatedNoMoreOftenThanAllowed) {
  const Refusal refusal{.status = {grpc::StatusCode::UNAVAILABLE, "draining"}};
  service_.RefuseNext({refusal, refusal, refusal});
  const Problem problem(5);
  const auto client = Connect({.retry = {.max_attempts = 3}});
  const absl::Status status = client->Attend(problem.spec, problem.inputs()).status();
  EXPECT_EQ(status, absl::UnavailableError("draining"));
  EXPECT_EQ(service_.calls(), 3);
}

TEST_F(ClientTest, WhatTheServerCancelsIsUnavailableAndRepeated) {
  const Refusal refusal{.status = {grpc::StatusCode::CANCELLED, "gone"}};
  const Problem problem(5);
  const auto client = Connect({.retry = {.max_attempts = 2}});
  for (const CallKind kind : {CallKind::kUnary, CallKind::kStream}) {
    service_.RefuseNext({refusal});
    const auto reply = client->Attend(problem.spec, problem.inputs(), {.kind = kind});
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->attempts, 2);
    service_.RefuseNext({refusal, refusal});
    EXPECT_EQ(client->Attend(problem.spec, problem.inputs(), {.kind = kind}).status(),
              absl::UnavailableError("the server ended the call (CANCELLED: gone)"));
  }
}

TEST_F(ClientTest, OtherErrorsAreNotRepeated) {
  const Problem problem(5);
  const auto client = Connect();
  for (const auto code : {grpc::StatusCode::INVALID_ARGUMENT, grpc::StatusCode::INTERNAL,
                          grpc::StatusCode::RESOURCE_EXHAUSTED, grpc::StatusCode::UNIMPLEMENTED}) {
    const int before = service_.calls();
    service_.RefuseNext({{.status = {code, "no"}}});
    EXPECT_FALSE(client->Attend(problem.spec, problem.inputs()).ok());
    EXPECT_EQ(service_.calls(), before + 1);
  }
}

TEST_F(ClientTest, ResourceExhaustedIsRepeatedAfterTheServersRetryInfo) {
  service_.RefuseNext({{.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                                   testing::RetryInfoDetails(0, 20'000'000)}}});
  const Problem problem(5);
  const auto client = Connect();
  const absl::Time start = absl::Now();
  const auto reply = client->Attend(problem.spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->attempts, 2);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(20));
}

TEST_F(ClientTest, ResourceExhaustedIsRepeatedAfterThePushback) {
  service_.RefuseNext(
      {{.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "full"}, .pushback_ms = "20"}});
  const Problem problem(5);
  const auto client = Connect();
  const absl::Time start = absl::Now();
  const auto reply = client->Attend(problem.spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->attempts, 2);
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(20));
}

TEST_F(ClientTest, ANegativePushbackForbidsRepeating) {
  service_.RefuseNext({{.status = {grpc::StatusCode::UNAVAILABLE, "go"}, .pushback_ms = "-1"}});
  const Problem problem(5);
  EXPECT_TRUE(absl::IsUnavailable(Connect()->Attend(problem.spec, problem.inputs()).status()));
  EXPECT_EQ(service_.calls(), 1);
}

TEST_F(ClientTest, AWaitPastTheDeadlineIsNotBegun) {
  service_.RefuseNext({{.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "full",
                                   testing::RetryInfoDetails(3600, 0)}}});
  const Problem problem(5);
  const auto client = Connect();
  const absl::Time start = absl::Now();
  const absl::Status status =
      client->Attend(problem.spec, problem.inputs(), {.timeout = absl::Minutes(10)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "full");
  EXPECT_LT(absl::Now() - start, absl::Minutes(1));
}

TEST_F(ClientTest, TheDeadlineEndsACallThatIsNotAnswered) {
  service_.HoldCalls();
  const Problem problem(5);
  const auto client = Connect();
  for (const CallKind kind : {CallKind::kUnary, CallKind::kStream}) {
    const absl::Status status = client
                                    ->Attend(problem.spec, problem.inputs(),
                                             {.timeout = absl::Milliseconds(50), .kind = kind})
                                    .status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  }
  service_.ReleaseCalls();
}

TEST_F(ClientTest, TheDeadlineEndsAnUploadThatIsNotRead) {
  service_.HoldCalls();
  const Problem problem(/*seqlen=*/16384, /*head_dim=*/64);  // 24 MiB a tensor
  const auto client = Connect();
  const absl::Time start = absl::Now();
  const absl::Status status =
      client
          ->Attend(problem.spec, problem.inputs(),
                   {.timeout = absl::Milliseconds(300), .kind = CallKind::kStream})
          .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_LT(absl::Now() - start, absl::Seconds(20));
  service_.ReleaseCalls();
}

TEST_F(ClientTest, MergeSendsPartsAndReturnsTheResult) {
  const std::vector<float> out = {1, 2, 3, 4, 5, 6, 7, 8};
  const std::vector<float> lse = {10, 20, 30, 40};
  const auto reply = Connect()->Merge({.num_parts = 2,
                                       .rows = 2,
                                       .head_dim_v = 2,
                                       .out = std::as_bytes(std::span(out)),
                                       .lse = std::as_bytes(std::span(lse))});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Floats(reply->out), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(Floats(reply->lse), (std::vector<float>{10, 20}));
  EXPECT_EQ(reply->timings.compute_seconds(), 0.25);
}

TEST_F(ClientTest, AMergeAnswerOfTheWrongSizeIsAnError) {
  const std::vector<float> out = {1, 2};
  const auto reply = Connect()->Merge(
      {.num_parts = 2, .rows = 2, .head_dim_v = 2, .out = std::as_bytes(std::span(out))});
  EXPECT_EQ(reply.status().code(), absl::StatusCode::kInternal);
}

TEST_F(ClientTest, GetServerInfoReturnsWhatTheServerSays) {
  const auto info = Connect()->GetServerInfo();
  ASSERT_TRUE(info.ok()) << info.status();
  EXPECT_EQ(info->version(), "fake 1");
  EXPECT_EQ(info->max_message_bytes(), 64 * kMiB);
}

TEST_F(ClientTest, ManyThreadsShareOneClient) {
  const auto client = Connect();
  std::vector<std::thread> threads;
  std::vector<int> right(8);
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const Problem problem(t + 1);
      for (int i = 0; i < 20; ++i) {
        const auto reply =
            client->Attend(problem.spec, problem.inputs(),
                           {.kind = i % 2 == 0 ? CallKind::kUnary : CallKind::kStream});
        right[t] += reply.ok() && Floats(reply->out) == problem.q;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(right, Each(20));
}

// A server that another one, with another limit, takes the place of.
class ReplacedServerTest : public ClientTest {
 protected:
  static constexpr std::int64_t kSmallLimit = 64 << 10;

  // As gRPC refuses a message far beyond the server's limit.
  static Refusal TooLarge() {
    return {.status = {grpc::StatusCode::RESOURCE_EXHAUSTED,
                       "Received message larger than max (288000 vs. 131072)"}};
  }

  // One part of 4096 rows: 144 KiB.
  MergeInputs SomeMerge() const {
    return {.num_parts = 1,
            .rows = 4'096,
            .head_dim_v = 8,
            .out = std::as_bytes(std::span(out_)),
            .lse = std::as_bytes(std::span(lse_))};
  }

  const std::vector<float> out_ = std::vector<float>(32'768, 1.0f);
  const std::vector<float> lse_ = std::vector<float>(4'096, 2.0f);
};

TEST_F(ReplacedServerTest, ASmallerLimitTurnsAUnaryCallIntoAStream) {
  const Problem problem(500);  // 141 KiB
  const auto client = Connect();
  EXPECT_FALSE(client->Attend(problem.spec, problem.inputs())->streamed);
  service_.SetMaxMessageBytes(kSmallLimit);
  for (const bool known : {false, true}) {
    const int before = service_.calls();
    const auto reply = client->Attend(problem.spec, problem.inputs());
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_TRUE(reply->streamed);
    EXPECT_EQ(Floats(reply->out), problem.q);
    EXPECT_EQ(service_.calls() - before, known ? 1 : 2);
    EXPECT_EQ(reply->attempts, known ? 1 : 2);
  }
}

TEST_F(ReplacedServerTest, ASmallerLimitMakesChunksSmaller) {
  const Problem problem(1000);
  const auto client = Connect();
  EXPECT_TRUE(client->Attend(problem.spec, problem.inputs(), {.kind = CallKind::kStream}).ok());
  service_.SetMaxMessageBytes(kSmallLimit);
  const auto reply = client->Attend(problem.spec, problem.inputs(), {.kind = CallKind::kStream});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Floats(reply->out), problem.q);
  EXPECT_EQ(service_.last_chunk_sizes().front(), kSmallLimit - 4096);
}

TEST_F(ReplacedServerTest, WhatGrpcRefusesBySizeIsStreamedToo) {
  const Problem problem(500);
  const auto client = Connect();
  service_.SetMaxMessageBytes(kSmallLimit);
  service_.RefuseNext({TooLarge()});
  const auto reply = client->Attend(problem.spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->streamed);
}

TEST_F(ReplacedServerTest, WithOneAttemptASmallerLimitIsLearntForTheNextCall) {
  const Problem problem(500);
  const auto client = Connect({.retry = {.max_attempts = 1}});
  service_.SetMaxMessageBytes(kSmallLimit);
  EXPECT_EQ(client->Attend(problem.spec, problem.inputs()).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(service_.calls(), 1);
  const auto reply = client->Attend(problem.spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->streamed);
  EXPECT_EQ(service_.calls(), 2);
}

TEST_F(ReplacedServerTest, AChangedLimitDoesNotRenewTheAttempts) {
  const Problem problem(500);
  const Refusal draining{.status = {grpc::StatusCode::UNAVAILABLE, "draining"}};
  const auto five_attempts = Connect();
  const auto six_attempts = Connect({.retry = {.max_attempts = 6}});
  service_.SetMaxMessageBytes(kSmallLimit);
  service_.RefuseNext({draining, draining, draining, draining, TooLarge()});
  EXPECT_EQ(five_attempts->Attend(problem.spec, problem.inputs()).status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(service_.calls(), 5);
  service_.RefuseNext({draining, draining, draining, draining, TooLarge()});
  const auto reply = six_attempts->Attend(problem.spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->attempts, 6);
}

TEST_F(ReplacedServerTest, AnOverloadedServerIsNotAskedForItsLimit) {
  const Problem problem(500);
  const auto client = Connect({.retry = {.max_attempts = 2}});
  const int before = service_.info_calls();
  const Refusal with_details{
      .status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "full", testing::RetryInfoDetails(0, 1)}};
  const Refusal with_pushback{.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "full"},
                              .pushback_ms = "0"};
  const Refusal for_good{.status = {grpc::StatusCode::RESOURCE_EXHAUSTED, "full"},
                         .pushback_ms = "-1"};
  for (const Refusal& refusal : {with_details, with_pushback}) {
    service_.RefuseNext({refusal, refusal, refusal, refusal});
    EXPECT_FALSE(client->Attend(problem.spec, problem.inputs()).ok());
    EXPECT_FALSE(client->Merge(SomeMerge()).ok());
  }
  service_.RefuseNext({for_good, for_good});
  EXPECT_FALSE(client->Attend(problem.spec, problem.inputs()).ok());
  EXPECT_FALSE(client->Merge(SomeMerge()).ok());
  EXPECT_EQ(service_.calls(), 10);
  EXPECT_EQ(service_.info_calls(), before);
}

TEST_F(ReplacedServerTest, WhatFitsEveryServerIsNoReasonToAskForTheLimit) {
  const Problem small(5);
  const Problem large(1000);
  const auto client = Connect({.chunk_bytes = 10'000});
  const int before = service_.info_calls();
  service_.RefuseNext({TooLarge(), TooLarge()});
  EXPECT_FALSE(client->Attend(small.spec, small.inputs()).ok());
  EXPECT_FALSE(client->Attend(large.spec, large.inputs(), {.kind = CallKind::kStream}).ok());
  EXPECT_EQ(service_.info_calls(), before);
}

TEST_F(ReplacedServerTest, ACallThatMustBeUnaryKeepsTheServersRefusal) {
  const Problem problem(500);
  const auto client = Connect();
  service_.SetMaxMessageBytes(kSmallLimit);
  const absl::Status status =
      client->Attend(problem.spec, problem.inputs(), {.kind = CallKind::kUnary}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("accepted: at most 131072"));
  EXPECT_EQ(service_.calls(), 1);
}

TEST_F(ReplacedServerTest, ARefusalForAnotherReasonIsNotRepeated) {
  const Problem problem(500);
  const auto client = Connect();
  service_.RefuseNext({{.status = {grpc::StatusCode::INVALID_ARGUMENT, "softcap: -1"}}});
  EXPECT_EQ(client->Attend(problem.spec, problem.inputs()).status(),
            absl::InvalidArgumentError("softcap: -1"));
  EXPECT_EQ(service_.calls(), 1);
}

TEST_F(ReplacedServerTest, ALargerLimitLetsALargerMergeThrough) {
  service_.SetMaxMessageBytes(kSmallLimit);
  const auto client = Connect();
  service_.SetMaxMessageBytes(kMiB);
  const auto reply = client->Merge(SomeMerge());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(Floats(reply->out), out_);
}

TEST_F(ReplacedServerTest, AMergeBeyondASmallerLimitIsRefusedInTheWordsOfTheLimit) {
  for (const bool by_grpc : {true, false}) {
    service_.SetMaxMessageBytes(kMiB);
    const auto client = Connect();
    ASSERT_TRUE(client->Merge(SomeMerge()).ok());
    service_.SetMaxMessageBytes(kSmallLimit);
    if (by_grpc) service_.RefuseNext({TooLarge()});
    const int before = service_.calls();
    for (int call = 0; call < 2; ++call) {
      EXPECT_EQ(
          client->Merge(SomeMerge()).status(),
          absl::InvalidArgumentError("out and lse: 147456 bytes, one message of at most 65536 "
                                     "accepted; merge fewer parts or rows at a time"));
    }
    EXPECT_EQ(service_.calls() - before, 1);
  }
}

TEST_F(ReplacedServerTest, AMergeRefusedForAnotherReasonKeepsTheServersWords) {
  const auto client = Connect();
  service_.RefuseNext({{.status = {grpc::StatusCode::INVALID_ARGUMENT, "rows: is -1"}}});
  EXPECT_EQ(client->Merge(SomeMerge()).status(), absl::InvalidArgumentError("rows: is -1"));
  EXPECT_EQ(service_.calls(), 1);
}

// A server whose messages are so small that most problems have to be streamed.
class StreamingClientTest : public ClientTest {
 protected:
  FakeAttentionService small_{8192};
  FakeServer small_server_{small_};

  std::unique_ptr<Client> ConnectToSmall(std::int64_t chunk_bytes = kMiB) {
    absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(
        small_server_.target(),
        {.retry = {.initial_backoff = absl::Microseconds(10)}, .chunk_bytes = chunk_bytes});
    EXPECT_TRUE(client.ok()) << client.status();
    return *std::move(client);
  }

  // The status of a streamed call whose answer went through `tamper`.
  absl::Status StatusAfter(std::function<bool(v1::AttendStreamResponse&)> tamper) {
    small_.TamperWith(std::move(tamper));
    const Problem problem(40);  // out: 7680 bytes, 8 chunks
    return ConnectToSmall()->Attend(problem.spec, problem.inputs()).status();
  }
};

TEST_F(StreamingClientTest, ProblemsBeyondTheMessageLimitAreStreamed) {
  Problem problem(40);
  problem.spec.set_return_lse(true);
  problem.mask.assign(1600, 1);
  const auto reply = ConnectToSmall(/*chunk_bytes=*/1000)->Attend(problem.spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->streamed);
  EXPECT_EQ(Floats(reply->out), problem.q);
  EXPECT_EQ(reply->lse.As<float>().back(), 239.0f);
  const v1::AttendRequest sent = small_.last_request();
  EXPECT_EQ(sent.spec().SerializeAsString(), problem.spec.SerializeAsString());
  EXPECT_EQ(sent.q(), Bytes(problem.q));
  EXPECT_EQ(sent.k(), Bytes(problem.k));
  EXPECT_EQ(sent.v(), Bytes(problem.v));
  EXPECT_EQ(sent.mask(), std::string(1600, '\1'));
  EXPECT_EQ(small_.last_chunk_sizes().front(), 1000);
  EXPECT_EQ(small_.last_chunk_sizes().back(), 600);
}

TEST_F(StreamingClientTest, ChunksFitTheServersMessages) {
  const Problem problem(40);
  ASSERT_TRUE(ConnectToSmall(/*chunk_bytes=*/kMiB)->Attend(problem.spec, problem.inputs()).ok());
  EXPECT_EQ(small_.last_chunk_sizes().front(), 4096);
}

TEST_F(StreamingClientTest, ASmallProblemWithALargeResultIsStreamed) {
  Problem problem(20);
  EXPECT_FALSE(ConnectToSmall()
                   ->Attend(problem.spec, problem.inputs(), {.kind = CallKind::kUnary})
                   ->streamed);
  problem.spec.set_head_dim_v(8);
  problem.spec.set_return_probs(true);  // 9600 bytes
  const auto reply = ConnectToSmall()->Attend(problem.spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->streamed);
  EXPECT_EQ(reply->probs.bytes().size(), 9600u);
}

TEST_F(StreamingClientTest, StreamedResultsGoIntoTheCallersMemory) {
  const Problem problem(40);
  std::vector<float> out(problem.q.size());
  const auto reply = ConnectToSmall()->Attend(problem.spec, problem.inputs(), {},
                                              {.out = std::as_writable_bytes(std::span(out))});
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(out, problem.q);
}

TEST_F(StreamingClientTest, AnErrorWhileUploadingKeepsItsText) {
  small_.RefuseNext({{.status = {grpc::StatusCode::INVALID_ARGUMENT, "num_heads: 3"}}});
  const Problem problem(/*seqlen=*/4096, /*head_dim=*/64);
  const auto reply = ConnectToSmall()->Attend(problem.spec, problem.inputs());
  EXPECT_EQ(reply.status(), absl::InvalidArgumentError("num_heads: 3"));
}

TEST_F(StreamingClientTest, UnavailableAfterAnAnswerBeganIsNotRepeated) {
  small_.FailAfterHeader({grpc::StatusCode::UNAVAILABLE, "going away"});
  const Problem problem(40);
  const auto reply = ConnectToSmall()->Attend(problem.spec, problem.inputs());
  EXPECT_EQ(reply.status(), absl::UnavailableError("going away"));
  EXPECT_EQ(small_.calls(), 1);
}

TEST_F(StreamingClientTest, AnswersThatDoNotFitTheQuestionAreErrors) {
  const auto expect = [&](const char* text, std::function<bool(v1::AttendStreamResponse&)> tamper) {
    const absl::Status status = StatusAfter(std::move(tamper));
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << text;
    EXPECT_EQ(status.message(), text);
  };
  expect("out: the server announced 1099511627776 bytes, the result has 7680",
         [](v1::AttendStreamResponse& message) {
           if (message.has_result()) message.mutable_result()->set_out_bytes(1LL << 40);
           return true;
         });
  expect("lse: the server announced -4 bytes, the result has 0",
         [](v1::AttendStreamResponse& message) {
           if (message.has_result()) message.mutable_result()->set_lse_bytes(-4);
           return true;
         });
  expect("the server sent bytes of tensor 6 before the result's sizes",
         [](v1::AttendStreamResponse& message) { return !message.has_result(); });
  expect("the server's answer has no result", [](v1::AttendStreamResponse&) { return false; });
  expect("the server sent bytes of tensor 77", [](v1::AttendStreamResponse& message) {
    if (message.has_chunk()) message.mutable_chunk()->set_tensor(static_cast<v1::TensorId>(77));
    return true;
  });
  expect("out: the server sent 1000 bytes at offset -1 where offset 0 of 7680 was next",
         [](v1::AttendStreamResponse& message) {
           if (message.has_chunk()) message.mutable_chunk()->set_offset_bytes(-1);
           return true;
         });
  expect("out: the server sent 1000 bytes at offset 2000 where offset 1000 of 7680 was next",
         [](v1::AttendStreamResponse& message) { return message.chunk().offset_bytes() != 1000; });
  expect("out: the server sent 681 bytes at offset 7000 where offset 7000 of 7680 was next",
         [](v1::AttendStreamResponse& message) {
           if (message.chunk().offset_bytes() == 7000)
             message.mutable_chunk()->mutable_data()->push_back(0);
           return true;
         });
  expect("out: the server sent 7000 of 7680 bytes",
         [](v1::AttendStreamResponse& message) { return message.chunk().offset_bytes() != 7000; });
  expect("the server sent a second result header",
         [first = v1::AttendResult(), n = 0](v1::AttendStreamResponse& message) mutable {
           if (++n == 1) first = message.result();
           if (n == 2) *message.mutable_result() = first;
           return true;
         });
}

TEST_F(ClientTest, AUnaryAnswerThatDoesNotFitTheQuestionIsAnError) {
  const Problem problem(5);
  service_.TamperWith([](v1::AttendStreamResponse& message) {
    if (message.has_chunk()) message.mutable_chunk()->mutable_data()->pop_back();
    return true;
  });
  EXPECT_EQ(Connect()->Attend(problem.spec, problem.inputs()).status(),
            absl::InternalError("out: the server sent 959 of 960 bytes"));
}

TEST_F(StreamingClientTest, AMergeBeyondTheMessageLimitIsRefused) {
  const std::vector<float> out(4096);
  const absl::Status status = ConnectToSmall()
                                  ->Merge({.num_parts = 1,
                                           .rows = 512,
                                           .head_dim_v = 8,
                                           .out = std::as_bytes(std::span(out)),
                                           .lse = {}})
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("16384 bytes, one message of at most 8192"));
}

}  // namespace
}  // namespace attnd
