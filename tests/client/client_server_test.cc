// The client library against the real server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "attnd/client.h"
#include "client/attnctl/verification.h"
#include "client/attnctl/verify_cases.h"
#include "tests/client/real_server.h"

namespace attnd {
namespace {

using attnctl::HostProblem;
using attnctl::RandomProblem;
using ::testing::HasSubstr;

class ClientServerTest : public ::testing::Test {
 protected:
  static RpcOptions Options() {
    RpcOptions options;
    options.version = "test";
    options.max_message_bytes = 64 << 10;
    options.stream_chunk_bytes = 10'000;
    return options;
  }

  void SetUp() override {
    auto client = Client::Connect(server_.target(), {.chunk_bytes = 7'000});
    ASSERT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
  }

  static v1::AttentionSpec Spec(std::int64_t seqlen) {
    v1::AttentionSpec spec;
    spec.set_batch_size(1);
    spec.set_seqlen_q(seqlen);
    spec.set_seqlen_k(seqlen);
    spec.set_num_heads(2);
    spec.set_head_dim(16);
    spec.set_dtype(v1::DATA_TYPE_FLOAT32);
    return spec;
  }

  testing::RealServer server_{Options()};
  std::unique_ptr<Client> client_;
};

TEST_F(ClientServerTest, EveryOptionIsRightInOneMessageAndInAStream) {
  std::uint64_t seed = 1;
  for (const attnctl::VerifyCase& verify_case : attnctl::VerifyCases()) {
    const HostProblem problem = RandomProblem(verify_case.spec, seed++);
    for (const CallKind kind : {CallKind::kAutomatic, CallKind::kStream}) {
      const auto report = attnctl::Verify(*client_, problem, {.kind = kind});
      ASSERT_TRUE(report.ok()) << verify_case.name << report.status();
      EXPECT_TRUE(report->ok()) << verify_case.name;
    }
  }
}

TEST_F(ClientServerTest, AStreamGivesTheBitsOfAMessage) {
  const HostProblem problem = RandomProblem(Spec(100), 9);
  const auto unary = client_->Attend(problem.spec, problem.inputs(), {.kind = CallKind::kUnary});
  const auto stream = client_->Attend(problem.spec, problem.inputs(), {.kind = CallKind::kStream});
  ASSERT_TRUE(unary.ok()) << unary.status();
  ASSERT_TRUE(stream.ok()) << stream.status();
  ASSERT_EQ(unary->out.bytes().size(), 100u * 2 * 16 * 4);
  EXPECT_EQ(
      std::memcmp(unary->out.bytes().data(), stream->out.bytes().data(), unary->out.bytes().size()),
      0);
}

TEST_F(ClientServerTest, AProblemBeyondTheLimitIsStreamedByItself) {
  const HostProblem problem = RandomProblem(Spec(1000), 9);
  const auto reply = client_->Attend(problem.spec, problem.inputs());
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->streamed);
  EXPECT_EQ(reply->result.kernel(), "cpu_fused");
  EXPECT_GT(reply->result.timings().compute_seconds(), 0);
}

TEST_F(ClientServerTest, ARefusedSpecSaysWhichFieldAndWhy) {
  HostProblem problem = RandomProblem(Spec(10), 9);
  problem.spec.set_num_kv_heads(3);
  for (const CallKind kind : {CallKind::kUnary, CallKind::kStream}) {
    const absl::Status status =
        client_->Attend(problem.spec, problem.inputs(), {.kind = kind}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr("num_kv_heads"));
    EXPECT_TRUE(status.GetPayload("type.googleapis.com/google.rpc.BadRequest").has_value());
  }
}

TEST_F(ClientServerTest, AnUnsoundSpecIsTheServersToRefuse) {
  HostProblem problem = RandomProblem(Spec(10), 9);
  problem.spec.set_seqlen_q(-1);
  EXPECT_EQ(client_->Attend(problem.spec, problem.inputs()).status().code(),
            absl::StatusCode::kInvalidArgument);
  problem.spec.set_seqlen_q(INT64_MAX);
  EXPECT_EQ(client_->Attend(problem.spec, problem.inputs()).status().code(),
            absl::StatusCode::kInvalidArgument);
  problem.spec = Spec(10);
  problem.q.pop_back();
  EXPECT_EQ(client_->Attend(problem.spec, problem.inputs()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(ClientServerTest, ADrainingServerIsUnavailable) {
  server_.engine().StartDraining();
  auto client = Client::Connect(server_.target(), {.retry = {.max_attempts = 1}});
  ASSERT_TRUE(client.ok()) << client.status();
  const HostProblem problem = RandomProblem(Spec(10), 9);
  EXPECT_EQ((*client)->Attend(problem.spec, problem.inputs()).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ClientServerTest, PartialResultsMergeToTheWhole) {
  HostProblem whole = RandomProblem(Spec(40), 9);
  whole.spec.set_return_partial(true);
  HostProblem half = whole;
  half.spec.set_seqlen_k(20);
  half.k.resize(whole.k.size() / 2);
  half.v.resize(whole.v.size() / 2);
  HostProblem rest = half;
  rest.k.assign(whole.k.begin() + whole.k.size() / 2, whole.k.end());
  rest.v.assign(whole.v.begin() + whole.v.size() / 2, whole.v.end());

  std::vector<std::byte> out, lse;
  for (const HostProblem& part : {half, rest}) {
    const auto reply = client_->Attend(part.spec, part.inputs());
    ASSERT_TRUE(reply.ok()) << reply.status();
    // A part is [rows, head_dim_v] with rows over (batch, seqlen, heads); lse comes as [batch,
    // heads, seqlen].
    out.insert(out.end(), reply->out.bytes().begin(), reply->out.bytes().end());
    std::vector<float> by_row(80);
    for (int row = 0; row < 40; ++row) {
      for (int head = 0; head < 2; ++head) {
        by_row[2 * row + head] = reply->lse.As<float>()[40 * head + row];
      }
    }
    const auto bytes = std::as_bytes(std::span(by_row));
    lse.insert(lse.end(), bytes.begin(), bytes.end());
  }
  const auto merged =
      client_->Merge({.num_parts = 2, .rows = 80, .head_dim_v = 16, .out = out, .lse = lse});
  const auto expected = client_->Attend(whole.spec, whole.inputs());
  ASSERT_TRUE(merged.ok()) << merged.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  const auto a = merged->out.As<float>();
  const auto b = expected->out.As<float>();
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 2e-6) << i;
}

}  // namespace
}  // namespace attnd
