// The CPU's fused attention: the contract suite once more on each instruction set that the machine
// has, and what only this implementation promises or could get wrong.
#include "kernels/cpu/fused_attention.h"

#include <gtest/gtest.h>
#include <hwy/targets.h>
#include <sys/mman.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/cpu/fused_tile.h"
#include "tests/testing/contract_cases.h"
#include "tests/testing/expected_result.h"
#include "tests/testing/kernel_runner.h"
#include "tests/testing/problem.h"
#include "tests/testing/sparse_memory.h"
#include "tests/testing/threaded_parallel_for.h"

namespace attnd {
namespace {

using testing::ComputeExpected;
using testing::KernelRunner;
using testing::MakeCpuRunner;
using testing::Problem;
using testing::ProblemSpec;
using testing::ResultsMatch;
using testing::ThreadedParallelFor;

// Runs with one of Highway's targets only.
class TargetRunner : public KernelRunner {
 public:
  TargetRunner(std::int64_t target, std::unique_ptr<KernelRunner> runner)
      : target_(target), runner_(std::move(runner)) {}

  std::string name() const override {
    return absl::StrCat(runner_->name(), "_", hwy::TargetName(target_));
  }
  absl::Status Supports(const AttentionParams& p) const override { return runner_->Supports(p); }
  absl::Status Run(Problem& problem) override {
    hwy::DisableTargets(~target_);
    // Choose now: Highway's own first choice lets other threads see the best target for a moment.
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    absl::Status status = runner_->Run(problem);
    hwy::DisableTargets(0);
    return status;
  }
  absl::Status RunDiagnostics(Problem& problem, AttentionDiagnostics* report) override {
    return runner_->RunDiagnostics(problem, report);
  }
  absl::Status RunMerge(const MergeParams& p) override { return runner_->RunMerge(p); }

 private:
  const std::int64_t target_;
  const std::unique_ptr<KernelRunner> runner_;
};

absl::Status RunFused(Problem& problem, int num_threads = 1) {
  ThreadedParallelFor parallel_for(num_threads);
  return MakeCpuRunner(cpu::FusedImplementation(), &parallel_for)->Run(problem);
}

// Memory that cannot be read in the middle.
class HoleyMemory {
 public:
  HoleyMemory(std::size_t size_bytes, std::size_t hole_begin, std::size_t hole_end)
      : memory_(size_bytes) {
    holey_ = memory_.data() != nullptr &&
             mprotect(memory_.data() + hole_begin, hole_end - hole_begin, PROT_NONE) == 0;
  }
  bool holey() const { return holey_; }
  float* floats() const { return reinterpret_cast<float*>(memory_.data()); }

 private:
  testing::SparseMemory memory_;
  bool holey_;
};

// Neither keys nor values are touched where the mask hides a whole tile of keys from all rows: to
// read them would end the program.
TEST(FusedAttentionTest, BlocksThatAMaskHidesAreNotRead) {
  constexpr std::int64_t kTile = cpu::kKeyTile;
  constexpr std::int64_t kKeys = 4 * kTile;
  constexpr std::int64_t kDim = 64;
  constexpr std::size_t kTileBytes = kTile * kDim * sizeof(float);
  for (const std::int64_t rows : {3, 70}) {  // keys read where they lie, and packed
    const HoleyMemory k(4 * kTileBytes, kTileBytes, 3 * kTileBytes);
    const HoleyMemory v(4 * kTileBytes, kTileBytes, 3 * kTileBytes);
    ASSERT_TRUE(k.holey() && v.holey());
    std::fill_n(v.floats(), kTile * kDim, 1.0f);
    std::fill_n(v.floats() + 3 * kTile * kDim, kTile * kDim, 3.0f);
    const std::vector<float> q(rows * kDim, 1.0f);
    std::vector<float> out(rows * kDim, -1.0f);
    std::vector<std::uint8_t> mask(rows * kKeys, 1);
    for (std::int64_t row = 0; row < rows; ++row)
      std::fill_n(mask.begin() + row * kKeys + kTile, 2 * kTile, std::uint8_t{0});

    AttentionParams p;
    p.batch_size = 1;
    p.seqlen_q = rows;
    p.seqlen_k = kKeys;
    p.num_heads = p.num_kv_heads = 1;
    p.head_dim = p.head_dim_v = kDim;
    p.softmax_scale = 1.0f;
    const auto view = [](const float* data, std::int64_t seqlen) {
      return TensorView{data, DataType::kFloat32, 1, seqlen, 1, kDim, seqlen * kDim, kDim, kDim};
    };
    p.q = view(q.data(), rows);
    p.k = view(k.floats(), kKeys);
    p.v = view(v.floats(), kKeys);
    p.out = {out.data(), DataType::kFloat32, 1, rows, 1, kDim, rows * kDim, kDim, kDim};
    p.mask.data = mask.data();
    p.mask.batch = p.mask.heads = 1;
    p.mask.rows = rows;
    p.mask.cols = kKeys;
    p.mask.row_stride = kKeys;

    ThreadedParallelFor parallel_for(2);
    ExecutionContext context;
    context.parallel_for = &parallel_for;
    ASSERT_TRUE(cpu::FusedImplementation().run(p, context).ok());
    EXPECT_EQ(out, std::vector<float>(rows * kDim, 2.0f));
  }
}

TEST(FusedAttentionTest, MatchesAroundKeySplitsAndTheBoundOfFewRows) {
  for (int rows : {1, 2, 3, 5, 12, 13, 31, 32, 33}) {
    for (int seqlen_k : {511, 512, 513, 1024, 1025, 1100}) {
      SCOPED_TRACE(absl::StrCat(rows, " rows, ", seqlen_k, " keys"));
      ProblemSpec spec;
      spec.seqlen_q = rows;
      spec.seqlen_k = seqlen_k;
      spec.causal = true;
      spec.sinks = rows % 2 == 1;
      Problem problem(spec);
      ASSERT_TRUE(RunFused(problem).ok());
      EXPECT_TRUE(ResultsMatch(problem, ComputeExpected(problem)));
    }
  }
}

TEST(FusedAttentionTest, WindowThatLeavesWholeSplitsUnseen) {
  ProblemSpec spec;
  spec.seqlen_q = 3;
  spec.seqlen_k = 2000;
  spec.num_heads = 4;
  spec.num_kv_heads = 2;
  spec.causal = true;
  spec.window_left = 40;
  Problem problem(spec);
  ASSERT_TRUE(RunFused(problem, 2).ok());
  EXPECT_TRUE(ResultsMatch(problem, ComputeExpected(problem)));
}

TEST(FusedAttentionTest, PaddingBehindASplitSequenceIsZeroed) {
  ProblemSpec spec;
  spec.batch_size = 3;
  spec.seqlen_q = 230;
  spec.seqlen_k = 1100;
  spec.lengths_q = {2, 0, 230};
  spec.lengths_k = {1100, 1100, 700};
  Problem problem(spec);
  ASSERT_TRUE(RunFused(problem, 2).ok());
  EXPECT_TRUE(ResultsMatch(problem, ComputeExpected(problem)));
}

// Counts the loops that are shared out.
class CountingParallelFor : public ParallelFor {
 public:
  void Run(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) override {
    ++runs_;
    for (std::int64_t i = 0; i < num_tasks; ++i) task(i);
  }
  int MaxParallelism() const override { return 4; }
  int runs() const { return runs_; }

 private:
  int runs_ = 0;
};

TEST(FusedAttentionTest, ManyRowsAreSharedOutHoweverFewKeysTheyHave) {
  for (int seqlen_k : {0, 1}) {
    for (int seqlen_q : {40, 4000}) {
      ProblemSpec spec;
      spec.seqlen_q = seqlen_q;
      spec.seqlen_k = seqlen_k;
      Problem problem(spec);
      CountingParallelFor parallel_for;
      ASSERT_TRUE(MakeCpuRunner(cpu::FusedImplementation(), &parallel_for)->Run(problem).ok());
      EXPECT_EQ(parallel_for.runs() > 0, seqlen_q == 4000) << seqlen_q << " x " << seqlen_k;
      EXPECT_TRUE(ResultsMatch(problem, ComputeExpected(problem)));
    }
  }
}

TEST(FusedAttentionTest, BitsDoNotDependOnHowManyThreadsThereAre) {
  for (int seqlen_q : {4, 500}) {
    ProblemSpec spec;
    spec.seqlen_q = seqlen_q;
    spec.seqlen_k = 700;
    spec.num_heads = 6;
    spec.num_kv_heads = 3;
    spec.causal = true;
    Problem one(spec);
    ASSERT_TRUE(RunFused(one, 1).ok());
    for (int num_threads : {2, 5, 64}) {  // tiles of other sizes
      Problem many(spec);
      ASSERT_TRUE(RunFused(many, num_threads).ok());
      EXPECT_TRUE(std::equal(one.outputs().data(),
                             one.outputs().data() + one.outputs().size_bytes(),
                             many.outputs().data()))
          << seqlen_q << " rows, " << num_threads << " threads";
    }
  }
}

// Other implementations may let a masked value through as 0 * inf; this one does not.
TEST(FusedAttentionTest, NonfiniteValueReachesOnlyRowsThatSeeIt) {
  for (int seqlen_q : {3, 60}) {
    for (bool masked : {false, true}) {
      SCOPED_TRACE(absl::StrCat(seqlen_q, " rows, mask ", masked));
      ProblemSpec spec;
      spec.seqlen_q = seqlen_q;
      spec.seqlen_k = 90;
      spec.causal = true;
      if (masked) spec.mask = testing::ScoreArray::kFull;
      Problem problem(spec);
      // Seen by the last row only; and, with a mask, by every row but the last two.
      problem.SetV(0, 89, 0, 5, std::numeric_limits<float>::infinity());
      if (masked) {
        problem.SetV(0, 20, 0, 7, std::numeric_limits<float>::quiet_NaN());
        for (int row = 0; row < seqlen_q; ++row) {
          problem.SetMask(0, 0, row, 20, row + 2 < seqlen_q);
        }
      }
      ASSERT_TRUE(RunFused(problem).ok());
      EXPECT_TRUE(ResultsMatch(problem, ComputeExpected(problem)));
    }
  }
}

TEST(FusedAttentionTest, RefusesAWorkspaceThatIsTooSmall) {
  ProblemSpec spec;
  spec.seqlen_k = 1100;
  Problem problem(spec);
  const KernelImplementation kernel = cpu::FusedImplementation();
  const AttentionParams p = problem.params();
  ExecutionContext context;
  ASSERT_GT(kernel.workspace_bytes(p, context.device), 0);
  context.workspace_bytes = kernel.workspace_bytes(p, context.device) - 4;
  EXPECT_EQ(kernel.run(p, context).code(), absl::StatusCode::kInvalidArgument);
}

TEST(FusedAttentionTest, PrefillNeedsNoWorkspaceThatGrowsWithItsLength) {
  ProblemSpec spec;
  spec.seqlen_q = 4000;
  spec.seqlen_k = 4000;
  Problem problem(spec);
  const KernelImplementation kernel = cpu::FusedImplementation();
  EXPECT_EQ(kernel.workspace_bytes(problem.params(), DeviceTraits{}), 0);
}

TEST(FusedAttentionTest, ShortPackedSequencesNeedNoWorkspace) {
  ProblemSpec spec;
  spec.layout = testing::Layout::kPacked;
  spec.batch_size = 50;
  spec.seqlen_k = 1100;
  spec.rooms_q.assign(50, 1);
  spec.rooms_k.assign(50, 3);
  spec.rooms_k[20] = 1100;
  Problem packed(spec);
  ProblemSpec longest;
  longest.seqlen_k = 1100;
  Problem alone(longest);
  const KernelImplementation kernel = cpu::FusedImplementation();
  // 1247 keys have two whole splits, which a third and a fourth part may follow.
  EXPECT_EQ(3 * kernel.workspace_bytes(packed.params(), DeviceTraits{}),
            4 * kernel.workspace_bytes(alone.params(), DeviceTraits{}));
  ASSERT_TRUE(RunFused(packed).ok());
  EXPECT_TRUE(ResultsMatch(packed, ComputeExpected(packed)));
}

TEST(FusedAttentionTest, DoesNotSupportProbs) {
  ProblemSpec spec;
  spec.probs = true;
  Problem problem(spec);
  EXPECT_EQ(cpu::FusedImplementation().supports(problem.params(), DeviceTraits{}).code(),
            absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace attnd

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  attnd::testing::ThreadedParallelFor parallel_for(2);
  const std::int64_t best = hwy::SupportedTargets() & -hwy::SupportedTargets();
  for (std::int64_t target : {HWY_AVX2, HWY_SSE4}) {
    // The best one is what kernels_contract_test runs.
    if (target == best || (hwy::SupportedTargets() & target) == 0) continue;
    attnd::testing::RegisterContractTests(std::make_shared<attnd::TargetRunner>(
        target, attnd::testing::MakeCpuRunner(attnd::cpu::FusedImplementation(), &parallel_for)));
  }
  return RUN_ALL_TESTS();
}
