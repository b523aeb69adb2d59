#include "server/rpc/chunk_assembler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "server/rpc/interval_set.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;

// Room for five tensors, and chunks of known content: byte i of tensor t is 31 * t + i.
class ChunkAssemblerTest : public ::testing::Test {
 protected:
  ChunkAssemblerTest() {
    ChunkAssembler::Destinations destinations;
    for (int t = 0; t < kNumInputTensors; ++t) {
      memory_[t].resize(kBytes[t]);
      destinations[t] = absl::MakeSpan(memory_[t]);
    }
    assembler_.emplace(destinations);
  }

  static std::byte ByteAt(int tensor, std::int64_t i) {
    return static_cast<std::byte>(31 * tensor + i);
  }

  absl::Status Add(InputTensor tensor, std::int64_t offset, std::int64_t size) {
    std::string data;
    for (std::int64_t i = 0; i < size; ++i)
      data.push_back(static_cast<char>(ByteAt(static_cast<int>(tensor), offset + i)));
    const std::vector<grpc::Slice> slices = {grpc::Slice(data.substr(0, size / 2)),
                                             grpc::Slice(data.substr(size / 2))};
    return assembler_->Add({tensor, offset, WireBytesView(slices)});
  }

  static constexpr std::array<std::int64_t, kNumInputTensors> kBytes = {4096, 2048, 2048, 0, 100};
  std::array<std::vector<std::byte>, kNumInputTensors> memory_;
  std::optional<ChunkAssembler> assembler_;
};

TEST_F(ChunkAssemblerTest, PutsChunksOfAnyOrderInTheirPlaces) {
  std::vector<std::pair<int, std::int64_t>> chunks;
  for (int t = 0; t < kNumInputTensors; ++t) {
    for (std::int64_t offset = 0; offset < kBytes[t]; offset += 10) chunks.emplace_back(t, offset);
  }
  std::shuffle(chunks.begin(), chunks.end(), std::mt19937(3));
  for (const auto& [t, offset] : chunks) {
    EXPECT_FALSE(assembler_->complete());
    ASSERT_TRUE(
        Add(static_cast<InputTensor>(t), offset, std::min<std::int64_t>(10, kBytes[t] - offset))
            .ok());
  }
  EXPECT_TRUE(assembler_->complete());
  for (int t = 0; t < kNumInputTensors; ++t) {
    for (std::int64_t i = 0; i < kBytes[t]; ++i)
      ASSERT_EQ(memory_[t][i], ByteAt(t, i)) << t << " " << i;
  }
}

TEST_F(ChunkAssemblerTest, RefusesOverlap) {
  ASSERT_TRUE(Add(InputTensor::kQ, 100, 200).ok());
  EXPECT_TRUE(Add(InputTensor::kK, 100, 200).ok()) << "another tensor";
  EXPECT_TRUE(Add(InputTensor::kQ, 50, 50).ok()) << "ends where the other begins";
  EXPECT_TRUE(Add(InputTensor::kQ, 300, 1).ok()) << "begins where the other ends";
  EXPECT_THAT(
      Add(InputTensor::kQ, 299, 10).ToString(),
      HasSubstr(
          "a chunk of 10 bytes of q at offset 299 overlaps bytes 50 to 301 that came before"));
  EXPECT_THAT(Add(InputTensor::kQ, 0, 51).ToString(), HasSubstr("overlaps bytes 50 to 301"));
  EXPECT_THAT(Add(InputTensor::kQ, 0, 4096).ToString(), HasSubstr("overlaps"));
  EXPECT_THAT(Add(InputTensor::kQ, 100, 1).ToString(), HasSubstr("overlaps"));
}

TEST_F(ChunkAssemblerTest, RefusesWhatRunsPastTheEnd) {
  const std::string past = "does not lie in the tensor, accepted: within its 4096 bytes";
  EXPECT_THAT(Add(InputTensor::kQ, 4000, 97).ToString(),
              HasSubstr("a chunk of 97 bytes of q at offset 4000 " + past));
  EXPECT_THAT(Add(InputTensor::kQ, -1, 1).ToString(), HasSubstr(past));
  EXPECT_THAT(Add(InputTensor::kQ, INT64_MAX, 1).ToString(), HasSubstr(past));
  EXPECT_THAT(Add(InputTensor::kQ, INT64_MIN, 1).ToString(), HasSubstr(past));
  EXPECT_THAT(Add(InputTensor::kQ, 4097, 0).ToString(), HasSubstr(past));
  EXPECT_THAT(Add(InputTensor::kMask, 0, 1).ToString(), HasSubstr("within its 0 bytes"));
}

TEST_F(ChunkAssemblerTest, AcceptsEmptyChunks) {
  EXPECT_TRUE(Add(InputTensor::kQ, 0, 0).ok());
  EXPECT_TRUE(Add(InputTensor::kQ, 4096, 0).ok());
  EXPECT_TRUE(Add(InputTensor::kMask, 0, 0).ok());
  EXPECT_FALSE(assembler_->complete());
}

TEST_F(ChunkAssemblerTest, TellsTheFirstBytesThatAreMissing) {
  EXPECT_THAT(assembler_->MissingError().ToString(),
              HasSubstr("q: bytes 0 to 4096 of 4096 never came"));
  ASSERT_TRUE(Add(InputTensor::kQ, 0, 4096).ok());
  ASSERT_TRUE(Add(InputTensor::kK, 0, 1000).ok());
  ASSERT_TRUE(Add(InputTensor::kK, 1001, 500).ok());
  EXPECT_THAT(assembler_->MissingError().ToString(),
              HasSubstr("k: bytes 1000 to 1001 of 2048 never came"));
  ASSERT_TRUE(Add(InputTensor::kK, 1000, 1).ok());
  EXPECT_THAT(assembler_->MissingError().ToString(),
              HasSubstr("k: bytes 1501 to 2048 of 2048 never came"));
  ASSERT_TRUE(Add(InputTensor::kK, 1501, 547).ok());
  ASSERT_TRUE(Add(InputTensor::kV, 1, 2047).ok());
  EXPECT_THAT(assembler_->MissingError().ToString(),
              HasSubstr("v: bytes 0 to 1 of 2048 never came"));
}

TEST(ChunkAssemblerLimitTest, RefusesTooManySeparatePieces) {
  std::vector<std::byte> memory(3 * ChunkAssembler::kMaxPieces);
  ChunkAssembler::Destinations destinations;
  destinations[0] = absl::MakeSpan(memory);
  ChunkAssembler assembler(destinations);
  const std::vector<grpc::Slice> byte = {grpc::Slice(std::string("x"))};
  for (int i = 0; i < ChunkAssembler::kMaxPieces; ++i) {
    ASSERT_TRUE(assembler.Add({InputTensor::kQ, 2 * i, WireBytesView(byte)}).ok()) << i;
  }
  EXPECT_THAT(assembler.Add({InputTensor::kQ, 2 * ChunkAssembler::kMaxPieces, WireBytesView(byte)})
                  .ToString(),
              HasSubstr("q arrives in more than 65536 separate pieces"));
}

TEST(IntervalSetTest, AgreesWithASetOfIntegers) {
  constexpr std::int64_t kLimit = 64;
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    IntervalSet set;
    std::vector<bool> model(kLimit);
    for (int step = 0; step < 60; ++step) {
      const std::int64_t begin = random() % kLimit;
      const std::int64_t end = std::min<std::int64_t>(kLimit, begin + 1 + random() % 8);
      const bool overlaps = std::count(model.begin() + begin, model.begin() + end, true) > 0;
      ASSERT_EQ(set.FindOverlap({begin, end}).has_value(), overlaps);
      if (overlaps) continue;
      set.Add({begin, end});
      std::fill(model.begin() + begin, model.begin() + end, true);
    }
    EXPECT_EQ(set.size(), std::count(model.begin(), model.end(), true));
    const auto first = std::find(model.begin(), model.end(), false);
    const auto last = std::find(first, model.end(), true);
    EXPECT_EQ(set.FirstGap(kLimit).size(), last - first);
    if (first != last) {
      EXPECT_EQ(set.FirstGap(kLimit).begin, first - model.begin());
    }
    int runs = 0;
    for (std::int64_t i = 0; i < kLimit; ++i) runs += model[i] && (i == 0 || !model[i - 1]);
    EXPECT_EQ(set.num_intervals(), runs);
  }
}

}  // namespace
}  // namespace attnd
