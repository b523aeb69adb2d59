// What is particular to the Hopper kernel: its widths, its tile edges and what it refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "kernels/attention_shape.h"
#include "kernels/cuda/sm90/fused_implementation.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/sm90_fixture.h"

namespace attnd::testing {
namespace {

using Sm90KernelsTest = Sm90Test;

TEST_F(Sm90KernelsTest, EveryWidthAndTypeAgreesWithFloat64) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (DataType dtype : {DataType::kFloat16, DataType::kBFloat16}) {
      for (bool causal : {false, true}) {
        ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
        spec.dtype = dtype;
        spec.causal = causal;
        Check(spec);
        spec.window_left = 70;
        Check(spec);
        spec.out_dtype = DataType::kFloat32;
        spec.sinks = true;
        Check(spec);
      }
    }
  }
}

TEST_F(Sm90KernelsTest, EveryWidthTakesEveryScoreOption) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (bool causal : {false, true}) {
      ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
      spec.causal = causal;
      spec.softcap = 5.0f;
      spec.bias = ScoreArray::kFull;
      spec.alibi = Slopes::kPerBatchAndHead;
      spec.mask = ScoreArray::kPerRow;
      spec.mask_empty_rows = true;
      Check(spec);
    }
  }
}

// A bias of the lowest float on all keys of a row leaves them alike, in every specialisation.
TEST_F(Sm90KernelsTest, EveryWidthAttendsToKeysOfTheLowestFloat) {
  constexpr float kLowest = std::numeric_limits<float>::lowest();
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
    spec.batch_size = 1;
    spec.distribution = Distribution::kConstant;
    spec.bias = ScoreArray::kFull;
    spec.bias_dtype = DataType::kFloat32;
    Problem problem(spec);
    for (int row = 0; row < spec.seqlen_q; row += 3) {
      for (int key = 0; key < spec.seqlen_k; ++key) problem.SetBias(0, 1, row, key, kLowest);
    }
    ASSERT_TRUE(MakeCudaRunner(kernel_, device_)->Run(problem).ok());
    for (int row = 0; row < spec.seqlen_q; ++row) {
      EXPECT_EQ(problem.Out(0, row, 1, 5), 0.5f) << "head_dim " << head_dim << " row " << row;
      EXPECT_EQ(problem.Lse(0, 1, row) == kLowest, row % 3 == 0)
          << "head_dim " << head_dim << " row " << row;
    }
  }
}

// Rows and keys one short of, at and one past what a warpgroup and a tile hold.
TEST_F(Sm90KernelsTest, TileEdgesAgreeWithFloat64) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (int seqlen_q : {1, 63, 64, 65, 127, 128, 129, 191, 192, 193}) {
      for (int seqlen_k : {1, 79, 81, 111, 112, 113, 127, 128, 129, 176, 177, 257}) {
        ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
        spec.batch_size = 1;
        spec.num_heads = 1;
        spec.seqlen_q = seqlen_q;
        spec.seqlen_k = seqlen_k;
        spec.causal = (seqlen_q + seqlen_k) % 2 == 0;
        Check(spec);
      }
    }
  }
}

// Sequences of no, one and many tiles, some without keys, whose room past the length holds NaN.
TEST_F(Sm90KernelsTest, PackedSequencesWithUnusedRoomAgreeWithFloat64) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    for (bool causal : {false, true}) {
      ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
      spec.layout = Layout::kPacked;
      spec.batch_size = 40;
      spec.seqlen_q = 300;
      spec.seqlen_k = 300;
      for (int b = 0; b < 40; ++b) {
        spec.rooms_q.push_back(b % 7 == 3 ? 0 : (b * 67) % 301);
        spec.rooms_k.push_back(b % 5 == 4 ? 0 : (b * 131) % 301);
        spec.lengths_k.push_back(spec.rooms_k.back() * (b % 3) / 2);
      }
      spec.causal = causal;
      Check(spec);
    }
  }
}

// A tensor of one batch entry may have more rows than the sequence has keys: those past the end
// hold NaN, and nobody may notice.
TEST_F(Sm90KernelsTest, RowsOfALargerTensorPastTheSequenceAreUnread) {
  ProblemSpec spec = Sm90Spec(128, 128);
  spec.batch_size = 1;
  Problem problem(spec);
  constexpr int kKeys = 200;
  for (int row = kKeys; row < spec.seqlen_k; ++row) {
    problem.SetK(0, row, 0, 5, NAN);
    problem.SetV(0, row, 0, 5, NAN);
  }
  auto inputs = DeviceMemory::Create(problem.inputs().size_bytes());
  auto outputs = DeviceMemory::Create(problem.outputs().size_bytes());
  ASSERT_TRUE(inputs.ok() && outputs.ok());
  ASSERT_TRUE(inputs->CopyFrom(problem.inputs().data()).ok());
  AttentionParams p = problem.ParamsAt(inputs->data(), outputs->data());
  p.seqlen_k = kKeys;
  ASSERT_TRUE(ValidateShape(p).ok());
  ExecutionContext context;
  context.device = device_;
  ASSERT_TRUE(kernel_.run(p, context).ok());
  ASSERT_TRUE(SynchronizeDevice().ok());
  ASSERT_TRUE(outputs->CopyTo(problem.outputs().data()).ok());
  for (int row = 0; row < spec.seqlen_q; ++row) {
    EXPECT_FALSE(std::isnan(problem.Out(0, row, 1, 5))) << "row " << row;
    EXPECT_FALSE(std::isnan(problem.Lse(0, 1, row))) << "row " << row;
  }
}

// NaN in k reaches exactly the rows that see it, also where its tile is masked for other rows.
TEST_F(Sm90KernelsTest, NanInAKeyReachesTheRowsThatSeeIt) {
  for (const auto& [head_dim, head_dim_v] : kSm90Widths) {
    ProblemSpec spec = Sm90Spec(head_dim, head_dim_v);
    spec.batch_size = 1;
    spec.causal = true;
    Problem problem(spec);
    constexpr int kBadKey = 200;
    problem.SetK(0, kBadKey, 0, 3, NAN);
    ASSERT_TRUE(MakeCudaRunner(kernel_, device_)->Run(problem).ok());
    for (int row = 0; row < spec.seqlen_q; ++row) {
      const bool sees = row + spec.seqlen_k - spec.seqlen_q >= kBadKey;
      EXPECT_EQ(std::isnan(problem.Out(0, row, 1, 0)), sees)
          << "head_dim " << head_dim << " row " << row;
    }
  }
}

// Needs no device: what is refused goes to another implementation.
TEST(Sm90SupportsTest, RefusesWhatItCannotCompute) {
  const KernelImplementation kernel = cuda::sm90::FusedImplementation();
  DeviceTraits hopper;
  hopper.backend = Backend::kCuda;
  hopper.compute_capability = 90;
  hopper.num_multiprocessors = 132;
  const auto refused = [&](const AttentionParams& p, const DeviceTraits& device) {
    return absl::IsUnimplemented(kernel.supports(p, device));
  };
  Problem problem(Sm90Spec(128, 128));
  const AttentionParams p = problem.params();
  EXPECT_TRUE(kernel.supports(p, hopper).ok());

  DeviceTraits other = hopper;
  other.compute_capability = 100;  // 9.0a code runs on 9.0 alone
  EXPECT_TRUE(refused(p, other));
  AttentionParams single = p;
  single.q.dtype = DataType::kFloat32;
  EXPECT_TRUE(refused(single, hopper));
  AttentionParams narrow = p;
  narrow.head_dim = 80;
  EXPECT_TRUE(refused(narrow, hopper));
  AttentionParams broadcast = p;
  broadcast.k.batch_stride = 0;
  EXPECT_TRUE(refused(broadcast, hopper));
  AttentionParams odd = p;
  odd.v.seq_stride += 1;
  EXPECT_TRUE(refused(odd, hopper));
  AttentionParams with_probs = p;
  float probs = 0.0f;
  with_probs.probs = &probs;
  EXPECT_TRUE(refused(with_probs, hopper));
  AttentionParams many = p;
  many.batch_size = many.q.batch = std::int64_t{1} << 40;
  EXPECT_TRUE(refused(many, hopper));
}

}  // namespace
}  // namespace attnd::testing
