#include "server/rpc/grpc_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <thread>
#include <vector>

#include "server/engine/retry_info.h"
#include "server/rpc/byte_ledger.h"
#include "server/rpc/error_details.h"
#include "server/rpc/wire_reader.h"
#include "server/rpc/work_queue.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The fields of a message by number: varints as decimal text, bytes as they are.
std::multimap<int, std::string> Fields(const std::string& message) {
  const std::vector<grpc::Slice> slices = {grpc::Slice(message)};
  std::multimap<int, std::string> fields;
  WireReader reader{WireBytesView(slices)};
  WireField field;
  while (*reader.Next(&field)) {
    fields.emplace(field.number, field.type == WireType::kLengthDelimited
                                     ? field.bytes.ToString()
                                     : std::to_string(field.value));
  }
  return fields;
}

std::string Field(const std::string& message, int number) {
  const auto fields = Fields(message);
  return fields.count(number) == 1 ? fields.find(number)->second : "(not there once)";
}

TEST(GrpcStatusTest, KeepsCodeAndMessage) {
  const grpc::Status status = ToGrpcStatus(absl::NotFoundError("no such thing"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no such thing");
  EXPECT_TRUE(ToGrpcStatus(absl::OkStatus()).ok());
}

TEST(GrpcStatusTest, FieldErrorsNameTheFieldInTheDetails) {
  const grpc::Status status =
      ToGrpcStatus(FieldError("head_dim", "is 100, accepted: a multiple of 8"));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(status.error_message(), "head_dim: is 100, accepted: a multiple of 8");
  const std::string rpc_status = status.error_details();
  EXPECT_EQ(Field(rpc_status, 1), "3");
  EXPECT_EQ(Field(rpc_status, 2), status.error_message());
  const std::string any = Field(rpc_status, 3);
  EXPECT_EQ(Field(any, 1), "type.googleapis.com/google.rpc.BadRequest");
  const std::string violation = Field(Field(any, 2), 1);
  EXPECT_EQ(Field(violation, 1), "head_dim");
  EXPECT_EQ(Field(violation, 2), "is 100, accepted: a multiple of 8");
}

TEST(GrpcStatusTest, RetryDelaysTravelInTheDetails) {
  const absl::Status status =
      WithRetryDelay(absl::ResourceExhaustedError("full"), absl::Milliseconds(1250));
  const std::string any = Field(ToGrpcStatus(status).error_details(), 3);
  EXPECT_EQ(Field(any, 1), "type.googleapis.com/google.rpc.RetryInfo");
  const std::string duration = Field(Field(any, 2), 1);
  EXPECT_EQ(Field(duration, 1), "1");
  EXPECT_EQ(Field(duration, 2), "250000000");
}

TEST(GrpcStatusTest, BoundsTheMessage) {
  const grpc::Status status = ToGrpcStatus(absl::InvalidArgumentError(std::string(100000, 'x')));
  EXPECT_EQ(status.error_message().size(), 1024u);
  EXPECT_THAT(status.error_message(), ::testing::EndsWith("x..."));
  EXPECT_LT(status.error_details().size(), 1100u);
}

TEST(GrpcStatusTest, KeepsSourceLocationsOutOfReplies) {
  const std::string reply =
      ToGrpcStatus(
          absl::InternalError("cudaMemcpyAsync: invalid value (server/device/cuda/copy.cc:42)"))
          .error_message();
  EXPECT_THAT(reply, HasSubstr("cudaMemcpyAsync: invalid value"));
  EXPECT_THAT(reply, Not(HasSubstr("copy.cc")));
}

TEST(GrpcStatusTest, KeepsTheDevicesSourceLocationsOutOfRefusals) {
  const std::string reply =
      ToGrpcStatus(absl::UnavailableError("the device has failed: cudaErrorIllegalAddress at "
                                          "/src/server/device/cuda/lane.cc:104"))
          .error_message();
  EXPECT_THAT(reply, HasSubstr("cudaErrorIllegalAddress"));
  EXPECT_THAT(reply, Not(HasSubstr("/src/")));
}

TEST(GrpcStatusTest, ASourceLocationIsNotCutInHalfInsteadOfTakenOut) {
  const std::string reply =
      ToGrpcStatus(absl::InternalError(std::string(1000, 'x') + " at /src/server/engine/job.cc:42"))
          .error_message();
  EXPECT_THAT(reply, Not(HasSubstr("/src/")));
}

TEST(ByteLedgerTest, RefusesWhatExceedsTheCapacityAndTakesItBack) {
  ByteLedger ledger(100);
  auto first = ledger.TryTake(60);
  ASSERT_TRUE(first.has_value());
  EXPECT_FALSE(ledger.TryTake(41).has_value());
  auto second = ledger.TryTake(40);
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(ledger.used_bytes(), 100);
  ByteLedger::Lease moved = *std::move(first);
  first.reset();
  EXPECT_EQ(ledger.used_bytes(), 100);
  moved.Reset();
  moved.Reset();
  EXPECT_EQ(ledger.used_bytes(), 40);
  second.reset();
  EXPECT_EQ(ledger.used_bytes(), 0);
  ledger.WaitUntilUnused();
}

TEST(ByteLedgerTest, WaitsForLeasesOfNoBytesToo) {
  ByteLedger ledger(0);
  auto lease = ledger.TryTake(0);
  std::atomic<bool> returned{false};
  std::thread giver([&] {
    EXPECT_FALSE(returned);
    lease.reset();
  });
  ledger.WaitUntilUnused();
  returned = true;
  giver.join();
}

TEST(WorkQueueTest, RunsAllThatWasAddedInOrder) {
  std::vector<int> order;
  {
    WorkQueue queue(1);
    for (int i = 0; i < 100; ++i) queue.Add([&order, i] { order.push_back(i); });
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

}  // namespace
}  // namespace attnd
