// What every Device promises, as one suite. Linked into two programs that differ in the device they
// make: see tests/testing/device_under_test.h.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <future>
#include <latch>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/kernel_registry.h"
#include "server/device/device.h"
#include "tests/testing/device_under_test.h"

namespace attnd {
namespace {

using ::testing::ContainsRegex;

constexpr std::int64_t kDeviceMemoryBytes = std::int64_t{64} << 20;
constexpr std::int64_t kStagingMemoryBytes = std::int64_t{64} << 20;

absl::Status Go() { return absl::OkStatus(); }
absl::Status ComputeNothing(const ExecutionContext&) { return absl::OkStatus(); }

std::vector<std::byte> RandomBytes(std::int64_t size, unsigned seed) {
  std::vector<std::byte> bytes(size);
  std::mt19937 random(seed);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

class DeviceContractTest : public ::testing::Test {
 protected:
  void SetUp() override {
    absl::StatusOr<std::unique_ptr<Device>> device =
        MakeDeviceUnderTest(kDeviceMemoryBytes, kStagingMemoryBytes);
    if (device.status().code() == absl::StatusCode::kFailedPrecondition) {
      GTEST_SKIP() << device.status().message();
    }
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  // Sends `bytes` to the device and back through one Run.
  std::vector<std::byte> RoundTrip(const std::vector<std::byte>& bytes) {
    const auto size = static_cast<std::int64_t>(bytes.size());
    const Buffer in = *device_->AllocateStaging(size);
    const Buffer on_device = *device_->AllocateDevice(size);
    const Buffer out = *device_->AllocateStaging(size);
    std::memcpy(in.data(), bytes.data(), bytes.size());
    std::memset(out.data(), 0, bytes.size());
    DeviceWork work;
    work.staging_input = in.data();
    work.device_input = on_device.data();
    work.input_bytes = size;
    work.compute = ComputeNothing;
    work.device_output = on_device.data();
    work.staging_output = out.data();
    work.output_bytes = size;
    const absl::StatusOr<StageSeconds> seconds = device_->Run(work, Go);
    EXPECT_TRUE(seconds.ok()) << seconds.status();
    return std::vector<std::byte>(out.data(), out.data() + size);
  }

  std::unique_ptr<Device> device_;
};

TEST_F(DeviceContractTest, InfoStatesTheBudgetsAndTheBackend) {
  const DeviceInfo& info = device_->info();
  EXPECT_FALSE(info.name.empty());
  EXPECT_EQ(info.device_memory_bytes, kDeviceMemoryBytes);
  EXPECT_EQ(info.staging_memory_bytes, kStagingMemoryBytes);
  EXPECT_EQ(info.device_memory_bytes, device_->device_usage().capacity_bytes);
  EXPECT_EQ(info.staging_memory_bytes, device_->staging_usage().capacity_bytes);
  EXPECT_EQ(info.unified_memory, info.traits.backend == Backend::kCpu);
  EXPECT_TRUE(device_->health().ok());
}

TEST_F(DeviceContractTest, BuffersAreAlignedAndCounted) {
  {
    const Buffer a = *device_->AllocateDevice(1);
    const Buffer b = *device_->AllocateStaging(257);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(a.data()) % 256, 0u);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % 256, 0u);
    EXPECT_EQ(device_->device_usage().used_bytes, 256);
    EXPECT_EQ(device_->staging_usage().used_bytes, 512);
  }
  EXPECT_EQ(device_->device_usage().used_bytes, 0);
  EXPECT_EQ(device_->staging_usage().used_bytes, 0);
  EXPECT_EQ(device_->device_usage().high_water_bytes, 256);
  EXPECT_EQ(device_->staging_usage().high_water_bytes, 512);
}

TEST_F(DeviceContractTest, TheWholeBudgetCanBeOneBufferAndNoMore) {
  const Buffer device_buffer = *device_->AllocateDevice(kDeviceMemoryBytes);
  const Buffer staging_buffer = *device_->AllocateStaging(kStagingMemoryBytes);
  EXPECT_EQ(device_->AllocateDevice(1).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device_->AllocateStaging(1).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(DeviceContractTest, ImpossibleSizesAreRefusedAndCostNothing) {
  for (const std::int64_t size : {std::int64_t{0}, std::int64_t{-1}}) {
    EXPECT_EQ(device_->AllocateDevice(size).status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(device_->AllocateStaging(size).status().code(), absl::StatusCode::kInvalidArgument);
  }
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(device_->AllocateDevice(huge).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device_->AllocateStaging(huge).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(device_->device_usage().used_bytes, 0);
  EXPECT_EQ(device_->staging_usage().used_bytes, 0);
}

TEST_F(DeviceContractTest, BytesComeBackAsTheyWentIn) {
  for (const std::int64_t size : {1, 255, 256, 1 << 20, (8 << 20) + 3}) {
    const std::vector<std::byte> bytes = RandomBytes(size, static_cast<unsigned>(size));
    EXPECT_EQ(RoundTrip(bytes), bytes) << size << " bytes";
  }
}

TEST_F(DeviceContractTest, WorkWithoutCopiesOnlyComputes) {
  int computed = 0;
  DeviceWork work;
  work.compute = [&computed](const ExecutionContext&) {
    ++computed;
    return absl::OkStatus();
  };
  ASSERT_TRUE(device_->Run(work, Go).ok());
  EXPECT_EQ(computed, 1);
}

TEST_F(DeviceContractTest, ComputeGetsTheWorkspaceAndTheDevice) {
  const Buffer workspace = *device_->AllocateDevice(4096);
  DeviceWork work;
  work.workspace = workspace.data();
  work.workspace_bytes = workspace.size_bytes();
  work.compute = [&](const ExecutionContext& context) {
    EXPECT_EQ(context.workspace, workspace.data());
    EXPECT_EQ(context.workspace_bytes, 4096);
    EXPECT_EQ(context.device.backend, device_->info().traits.backend);
    if (context.device.backend == Backend::kCpu) {
      EXPECT_NE(context.parallel_for, nullptr);
    } else {
      EXPECT_NE(context.stream, nullptr);  // never the default stream
    }
    return absl::OkStatus();
  };
  EXPECT_TRUE(device_->Run(work, Go).ok());
}

TEST_F(DeviceContractTest, StageTimesAreNotNegativeAndCopiesTakeTime) {
  constexpr std::int64_t kSize = 8 << 20;
  const Buffer in = *device_->AllocateStaging(kSize);
  const Buffer on_device = *device_->AllocateDevice(kSize);
  std::memset(in.data(), 1, kSize);
  DeviceWork work;
  work.staging_input = in.data();
  work.device_input = on_device.data();
  work.input_bytes = kSize;
  work.compute = ComputeNothing;
  const absl::StatusOr<StageSeconds> seconds = device_->Run(work, Go);
  ASSERT_TRUE(seconds.ok());
  EXPECT_GT(seconds->copy_in, 0);
  EXPECT_GE(seconds->compute, 0);
  EXPECT_GE(seconds->copy_out, 0);
}

TEST_F(DeviceContractTest, EachStageIsPrecededByTheCheckWhoseErrorEndsTheWork) {
  const Buffer in = *device_->AllocateStaging(256);
  const Buffer on_device = *device_->AllocateDevice(256);
  std::memset(in.data(), 1, 256);
  for (int failing_stage = 0; failing_stage < 3; ++failing_stage) {
    int checks = 0;
    int computed = 0;
    DeviceWork work;
    work.staging_input = in.data();
    work.device_input = on_device.data();
    work.input_bytes = 256;
    work.compute = [&computed](const ExecutionContext&) {
      ++computed;
      return absl::OkStatus();
    };
    const absl::StatusOr<StageSeconds> seconds = device_->Run(work, [&] {
      return checks++ == failing_stage ? absl::CancelledError("caller gone") : absl::OkStatus();
    });
    EXPECT_EQ(seconds.status(), absl::CancelledError("caller gone"));
    EXPECT_EQ(checks, failing_stage + 1);
    EXPECT_EQ(computed, failing_stage >= 2 ? 1 : 0);
  }
  EXPECT_TRUE(device_->health().ok());
}

TEST_F(DeviceContractTest, AnErrorOfTheComputationIsReturnedAndTheDeviceGoesOn) {
  DeviceWork work;
  work.compute = [](const ExecutionContext&) { return absl::UnimplementedError("no such kernel"); };
  EXPECT_EQ(device_->Run(work, Go).status(), absl::UnimplementedError("no such kernel"));
  EXPECT_TRUE(device_->health().ok());
  const std::vector<std::byte> bytes = RandomBytes(1000, 1);
  EXPECT_EQ(RoundTrip(bytes), bytes);
}

// On CUDA all lanes are taken by then.
TEST_F(DeviceContractTest, TheCheckEndsWorkThatWaitsForItsTurn) {
  constexpr int kBusy = kNumStreams;
  std::promise<void> release;
  std::latch all_busy(kBusy);
  DeviceWork busy;
  busy.compute = [&all_busy, released = release.get_future().share()](const ExecutionContext&) {
    all_busy.count_down();
    released.wait();
    return absl::OkStatus();
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < kBusy; ++t) {
    threads.emplace_back([this, &busy] { EXPECT_TRUE(device_->Run(busy, Go).ok()); });
  }
  all_busy.wait();
  DeviceWork late;
  late.compute = ComputeNothing;
  EXPECT_EQ(device_->Run(late, [] { return absl::CancelledError("caller gone"); }).status(),
            absl::CancelledError("caller gone"));
  release.set_value();
  for (std::thread& thread : threads) thread.join();
}

TEST_F(DeviceContractTest, MemoryThatTheMachineDoesNotHaveIsRefusedByTheNameOfItsOption) {
  constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();
  const absl::Status device_memory = MakeDeviceUnderTest(kHuge, kStagingMemoryBytes).status();
  EXPECT_EQ(device_memory.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(device_memory.message()),
      ContainsRegex("^device_memory_bytes: got 9223372036854775807; accepted here: at most [1-9]"));
  const absl::Status staging_memory = MakeDeviceUnderTest(kDeviceMemoryBytes, kHuge).status();
  EXPECT_EQ(staging_memory.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(staging_memory.message()),
              ContainsRegex(
                  "^staging_memory_bytes: got 9223372036854775807; accepted here: at most [1-9]"));
}

TEST_F(DeviceContractTest, ManyThreadsRunAtOnceWithoutMixingTheirBytes) {
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 6; ++t) {
    threads.emplace_back([this, t, &failures] {
      for (unsigned i = 0; i < 20; ++i) {
        const std::vector<std::byte> bytes =
            RandomBytes(1 + (t * 7919 + i * 104729) % 200000, t * 100 + i);
        if (RoundTrip(bytes) != bytes) ++failures;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  EXPECT_EQ(device_->device_usage().used_bytes, 0);
  EXPECT_EQ(device_->staging_usage().used_bytes, 0);
}

TEST_F(DeviceContractTest, RandomAllocationOnManyThreadsGivesEveryByteBack) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 4; ++t) {
    threads.emplace_back([this, t] {
      std::mt19937 random(t);
      std::vector<Buffer> live;
      for (int i = 0; i < 1000; ++i) {
        if (random() % 2 == 0 || live.empty()) {
          const std::int64_t size = 1 + random() % 300000;
          absl::StatusOr<Buffer> buffer =
              random() % 2 == 0 ? device_->AllocateDevice(size) : device_->AllocateStaging(size);
          if (buffer.ok()) live.push_back(std::move(*buffer));
        } else {
          std::swap(live[random() % live.size()], live.back());
          live.pop_back();
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(device_->device_usage().used_bytes, 0);
  EXPECT_EQ(device_->staging_usage().used_bytes, 0);
  EXPECT_TRUE(device_->AllocateDevice(kDeviceMemoryBytes).ok());
  EXPECT_TRUE(device_->AllocateStaging(kStagingMemoryBytes).ok());
}

}  // namespace
}  // namespace attnd
