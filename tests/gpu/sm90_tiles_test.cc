// How blocks of the Hopper kernel walk from tile to tile: many tiles a block, long and short ones,
// with and without the ticket, and results on their way out while the next tile is under way.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/data_type.h"
#include "tests/gpu/sm90_fixture.h"

namespace attnd::testing {
namespace {

class Sm90TilesTest : public Sm90Test {
 protected:
  // One block computes what many blocks compute, bit for bit.
  void CheckOneBlock(const ProblemSpec& spec) {
    Problem many_blocks(spec);
    Problem one_block(spec);
    ASSERT_TRUE(Runs(kernel_, device_, many_blocks));
    ASSERT_TRUE(Runs(kernel_, OneMultiprocessor(), one_block));
    EXPECT_TRUE(SameOutputs(many_blocks, one_block))
        << "head_dim " << spec.head_dim << "/" << spec.head_dim_v << ", causal " << spec.causal
        << ", mask " << (spec.mask != ScoreArray::kNone);
  }

  // Blocks that draw tickets compute what blocks compute that tiles are dealt to.
  void CheckTicket(const ProblemSpec& spec, const DeviceTraits& device) {
    Problem with_ticket(spec);
    ASSERT_GT(kernel_.workspace_bytes(with_ticket.params(), device), 0);
    ASSERT_TRUE(Runs(kernel_, device, with_ticket));
    KernelImplementation without = kernel_;
    without.workspace_bytes = [](const AttentionParams&, const DeviceTraits&) {
      return std::int64_t{0};
    };
    Problem dealt(spec);
    ASSERT_TRUE(Runs(without, device, dealt));
    EXPECT_TRUE(SameOutputs(with_ticket, dealt))
        << "head_dim " << spec.head_dim << "/" << spec.head_dim_v;
  }

  DeviceTraits OneMultiprocessor() const { return WithMultiprocessors(device_, 1); }
};

// Packed sequences, rooms_q[b] rows and rooms_k[b] keys each.
ProblemSpec Packed(int head_dim, int head_dim_v, std::vector<std::int32_t> rooms_q,
                   std::vector<std::int32_t> rooms_k) {
  ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
  spec.layout = Layout::kPacked;
  spec.batch_size = static_cast<std::int64_t>(rooms_q.size());
  spec.seqlen_q = *std::max_element(rooms_q.begin(), rooms_q.end());
  spec.seqlen_k = *std::max_element(rooms_k.begin(), rooms_k.end());
  spec.rooms_q = std::move(rooms_q);
  spec.rooms_k = std::move(rooms_k);
  return spec;
}

// Those whose blocks may pair.
constexpr std::pair<int, int> kPairedWidths[] = {{128, 128}, {192, 128}, {192, 192}, {256, 256}};

float Rounded(DataType dtype, float value) {
  return dtype == DataType::kFloat16 ? Float16ToFloat(FloatToFloat16(value))
                                     : BFloat16ToFloat(FloatToBFloat16(value));
}

// `rounded` has the results of `exact`, each rounded to its own type, and the same lse.
void ExpectRounded(Problem& exact, Problem& rounded) {
  const ProblemSpec& spec = rounded.spec();
  for (std::int64_t b = 0; b < spec.batch_size; ++b) {
    for (std::int64_t i = 0; i < spec.rooms_q[b] * spec.num_heads; ++i) {
      const std::int64_t head = i % spec.num_heads;
      const std::int64_t row = i / spec.num_heads;
      ASSERT_EQ(rounded.Lse(b, head, row), exact.Lse(b, head, row));
      for (std::int64_t d = 0; d < spec.head_dim_v; ++d) {
        ASSERT_EQ(rounded.Out(b, row, head, d), Rounded(spec.dtype, exact.Out(b, row, head, d)))
            << "head_dim " << spec.head_dim << ", sequence " << b << ", row " << row << ", head "
            << head << ", column " << d;
      }
    }
  }
}

// More tiles than multiprocessors: the ticket hands tiles out in another order, and nothing else.
TEST_F(Sm90TilesTest, TheTicketChangesNoBit) {
  ProblemSpec spec = Sm90Spec(64, 64);
  spec.batch_size = 48;
  spec.num_heads = 8;
  spec.causal = true;
  CheckTicket(spec, device_);
}

// Tiles of more key blocks than the producer loads after it has asked for the next tile.
TEST_F(Sm90TilesTest, TheTicketChangesNoBitOfLongTiles) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
    spec.seqlen_q = 400;
    spec.seqlen_k = 1500;
    spec.num_heads = 4;
    spec.causal = true;
    CheckTicket(spec, WithMultiprocessors(device_, 5));
  }
}

TEST_F(Sm90TilesTest, OneBlockWalksLongTiles) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (bool causal : {false, true}) {
      for (ScoreArray mask : {ScoreArray::kNone, ScoreArray::kFull}) {
        ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
        spec.seqlen_q = 200;
        spec.seqlen_k = 1100;
        spec.causal = causal;
        spec.mask = mask;
        CheckOneBlock(spec);
        Check(spec, OneMultiprocessor());
      }
    }
  }
}

// Where all rows see all of many keys, blocks work in pairs (Paired), of which one multiprocessor
// has none. Two tiles of a head, the second almost empty; then a pair that takes the last head of
// three with the same keys and the first again; then two heads with the same keys; then tiles that
// have no neighbour with the same keys.
TEST_F(Sm90TilesTest, PairsComputeWhatOneBlockDoes) {
  for (const auto& [head_dim, head_dim_v] : kPairedWidths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
      spec.dtype = dtype;
      spec.seqlen_k = 4100;
      spec.num_heads = 3;
      spec.num_kv_heads = 3;
      CheckOneBlock(spec);
      spec.num_kv_heads = 1;
      CheckOneBlock(spec);
      spec.seqlen_q = 60;
      spec.num_heads = 4;
      spec.num_kv_heads = 2;
      spec.layout = Layout::kBhsd;
      spec.out_dtype = DataType::kFloat32;
      CheckOneBlock(spec);
      spec.num_kv_heads = 4;
      CheckOneBlock(spec);
    }
  }
}

// One pair, or two, that walk from tile to tile; of an odd number of multiprocessors one is left
// out.
TEST_F(Sm90TilesTest, PairsWalkManyTiles) {
  for (const auto& [head_dim, head_dim_v] : kPairedWidths) {
    ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
    spec.seqlen_k = head_dim == 256 ? 1040 : head_dim_v == 192 ? 4144 : 4096;  // whole blocks
    spec.num_kv_heads = 2;
    Problem one_block(spec);
    ASSERT_TRUE(Runs(kernel_, OneMultiprocessor(), one_block));
    for (int multiprocessors : {2, 3, 5}) {
      Problem pairs(spec);
      ASSERT_TRUE(Runs(kernel_, WithMultiprocessors(device_, multiprocessors), pairs));
      EXPECT_TRUE(SameOutputs(one_block, pairs))
          << "head_dim " << head_dim << "/" << head_dim_v << ", " << multiprocessors;
    }
  }
}

TEST_F(Sm90TilesTest, AThousandRepeatsOfPairsGiveTheSameBits) {
  ProblemSpec spec = Sm90Spec(256, 256);
  spec.seqlen_k = 1030;
  Problem first(spec);
  Problem again(spec);
  ASSERT_TRUE(Runs(kernel_, device_, first));
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(Runs(kernel_, WithMultiprocessors(device_, 2 + i % 7), again));
    ASSERT_TRUE(SameOutputs(first, again)) << "repeat " << i;
  }
}

// At a head_dim of 256 few keys are enough. Many pairs, and one that walks all tiles.
TEST_F(Sm90TilesTest, PairsOfFewKeysComputeWhatOneBlockDoes) {
  ProblemSpec spec = Sm90Spec(256, 256);
  spec.seqlen_k = 1030;
  spec.num_kv_heads = 2;
  CheckOneBlock(spec);
  Check(spec);
  Check(spec, WithMultiprocessors(device_, 2));
}

// Tiles with all and with few of their rows, and without keys, in turn.
TEST_F(Sm90TilesTest, OneBlockWalksPacked) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (bool causal : {false, true}) {
      ProblemSpec spec =
          Packed(head_dim, head_dim_v, {150, 0, 20, 1, 70, 200}, {260, 9, 0, 129, 70, 30});
      spec.causal = causal;
      CheckOneBlock(spec);
      Check(spec, OneMultiprocessor());
    }
  }
}

// A tile with fewer rows than a warpgroup has: the others pass over all of its key blocks but one,
// tile after tile.
TEST_F(Sm90TilesTest, AWarpgroupWithoutRowsPassesManyBlocks) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
    spec.batch_size = 1;
    spec.seqlen_q = 3;
    spec.seqlen_k = 20000;
    CheckOneBlock(spec);
    Check(spec, OneMultiprocessor());
  }
}

// Results of 16 bits leave through shared memory where a warp owns 16 rows, and from registers
// where it does not; those of float32 always leave from registers. Rows of all of them begin
// anywhere.
TEST_F(Sm90TilesTest, SixteenBitResultsAreTheFloat32OnesRounded) {
  std::vector<std::int32_t> rooms_q;
  for (std::int32_t room = 1; room <= 40; ++room) rooms_q.push_back(room);
  rooms_q.insert(rooms_q.end(), {64, 113, 128, 192, 193, 300});
  const std::vector<std::int32_t> rooms_k(rooms_q.size(), 150);
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      ProblemSpec spec = Packed(head_dim, head_dim_v, rooms_q, rooms_k);
      spec.dtype = dtype;
      Problem rounded(spec);
      spec.out_dtype = DataType::kFloat32;
      Problem exact(spec);
      ASSERT_TRUE(Runs(kernel_, OneMultiprocessor(), rounded));
      ASSERT_TRUE(Runs(kernel_, OneMultiprocessor(), exact));
      ExpectRounded(exact, rounded);
    }
  }
}

}  // namespace
}  // namespace attnd::testing
