#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "kernels/attnd_kernels.h"
#include "tests/kernels/c_api_caller.h"

namespace {
// Makes operator new fail on this thread.
thread_local bool allocations_fail = false;
}  // namespace

void* operator new(std::size_t size) {
  void* memory = allocations_fail ? nullptr : std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
// Not inlined: the compiler would see memory of new go to free.
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

namespace {

using ::testing::HasSubstr;

constexpr std::int64_t kSeqlen = 3;
constexpr std::int64_t kDim = 8;

// Two heads of three rows; every key gets the same weight, since q is 0.
class CApiTest : public ::testing::Test {
 protected:
  CApiTest() {
    for (std::size_t i = 0; i < v_.size(); ++i) v_[i] = static_cast<float>(i);
    params_.struct_size = sizeof(params_);
    params_.batch_size = 1;
    params_.seqlen_q = params_.seqlen_k = kSeqlen;
    params_.num_heads = params_.num_kv_heads = 2;
    params_.head_dim = params_.head_dim_v = kDim;
    params_.q = Tensor(q_);
    params_.k = Tensor(k_);
    params_.v = Tensor(v_);
    params_.out = Tensor(out_);
    params_.lse = lse_.data();
    params_.lse_head_stride = kSeqlen;
    execution_.struct_size = sizeof(execution_);
  }

  static attnd_tensor Tensor(std::vector<float>& data) {
    return {data.data(), ATTND_FLOAT32, 1, kSeqlen, 2, kDim, kSeqlen * 2 * kDim, 2 * kDim, kDim};
  }

  void ExpectRefused(const char* words) {
    EXPECT_EQ(attnd_attention(&params_, &execution_), ATTND_INVALID_ARGUMENT);
    EXPECT_THAT(attnd_last_error(), HasSubstr(words));
  }

  std::vector<float> q_ = std::vector<float>(kSeqlen * 2 * kDim, 0.0f);
  std::vector<float> k_ = std::vector<float>(kSeqlen * 2 * kDim, 1.0f);
  std::vector<float> v_ = std::vector<float>(kSeqlen * 2 * kDim);
  std::vector<float> out_ = std::vector<float>(kSeqlen * 2 * kDim, -1.0f);
  std::vector<float> lse_ = std::vector<float>(kSeqlen * 2, -1.0f);
  attnd_attention_params params_ = {};
  attnd_execution execution_ = {};
};

TEST_F(CApiTest, AttendsWithEveryDefault) {
  ASSERT_EQ(attnd_attention(&params_, &execution_), ATTND_OK) << attnd_last_error();
  for (std::int64_t i = 0; i < kSeqlen * 2 * kDim; ++i) {
    EXPECT_NEAR(out_[i], v_[i % (2 * kDim) + 2 * kDim], 1e-5) << i;  // the mean of three rows
  }
  for (float lse : lse_) EXPECT_NEAR(lse, std::log(3.0f), 1e-6);
  EXPECT_STREQ(attnd_last_error(), "");
}

TEST_F(CApiTest, AppliesTheOptions) {
  params_.causal = 1;
  params_.has_window_left = 1;
  params_.window_left = 0;
  ASSERT_EQ(attnd_attention(&params_, &execution_), ATTND_OK) << attnd_last_error();
  EXPECT_EQ(out_, v_);  // each row sees itself only
}

TEST_F(CApiTest, DefaultScaleIsOneOverTheRootOfHeadDim) {
  q_.assign(q_.size(), 1.0f);
  ASSERT_EQ(attnd_attention(&params_, &execution_), ATTND_OK) << attnd_last_error();
  EXPECT_NEAR(lse_[0], std::log(3.0) + std::sqrt(8.0), 1e-5);
  params_.has_softmax_scale = 1;
  params_.softmax_scale = 0.5f;
  ASSERT_EQ(attnd_attention(&params_, &execution_), ATTND_OK) << attnd_last_error();
  EXPECT_NEAR(lse_[0], std::log(3.0) + 4.0, 1e-5);
}

TEST_F(CApiTest, ACompilerOfCAcceptsTheHeader) {
  const std::vector<float> values(kSeqlen * kDim, 1.0f);
  std::vector<float> out(kSeqlen * kDim);
  std::vector<float> lse(kSeqlen);
  ASSERT_EQ(attend_from_c(values.data(), values.data(), values.data(), kSeqlen, kDim, out.data(),
                          lse.data()),
            ATTND_OK);
  EXPECT_NEAR(out[0], 1.0f, 1e-6);
  EXPECT_NEAR(lse[2] - lse[0], std::log(3.0), 1e-6);
}

TEST_F(CApiTest, SpreadsWorkOverTheCallersThreads) {
  int calls = 0;
  execution_.algorithm = "online";
  execution_.parallel_for_context = &calls;
  execution_.parallel_for = [](void* context, std::int64_t num_tasks,
                               void (*task)(void*, std::int64_t), void* task_context) {
    ++*static_cast<int*>(context);
    for (std::int64_t i = num_tasks; i-- > 0;) task(task_context, i);
  };
  ASSERT_EQ(attnd_attention(&params_, &execution_), ATTND_OK) << attnd_last_error();
  EXPECT_GT(calls, 0);
  EXPECT_NEAR(out_[0], v_[2 * kDim], 1e-5);
}

TEST_F(CApiTest, ReportsAndChecksTheWorkspace) {
  execution_.algorithm = "naive";
  std::int64_t bytes = -1;
  ASSERT_EQ(attnd_attention_workspace(&params_, &execution_, &bytes), ATTND_OK);
  EXPECT_EQ(bytes, 4 * 2 * kSeqlen * (kSeqlen + 2));
  ExpectRefused("workspace_bytes: 0; at least 120 is accepted");
  alignas(256) std::byte workspace[256];
  execution_.workspace = workspace;
  execution_.workspace_bytes = bytes;
  EXPECT_EQ(attnd_attention(&params_, &execution_), ATTND_OK) << attnd_last_error();
  execution_.workspace = workspace + 4;
  ExpectRefused("workspace: not aligned");
}

TEST_F(CApiTest, AShorterStructHasDefaultsInItsTail) {
  params_.struct_size =
      offsetof(attnd_attention_params, probs);  // lse and its strides are the last
  params_.causal = 1;                           // past the end: not read
  ASSERT_EQ(attnd_attention(&params_, &execution_), ATTND_OK) << attnd_last_error();
  EXPECT_NEAR(lse_[0], std::log(3.0f), 1e-6);
}

TEST_F(CApiTest, StructSizesOfNoVersionAreRefused) {
  for (std::size_t size :
       {std::size_t{0}, std::size_t{8}, offsetof(attnd_attention_params, lse) - 8,
        sizeof(params_) - 4, sizeof(params_) + 8}) {
    params_.struct_size = size;
    ExpectRefused("params: struct_size");
  }
  params_.struct_size = sizeof(params_);
  execution_.struct_size = 0;
  ExpectRefused("execution: struct_size 0");
}

TEST_F(CApiTest, NullPointersAreRefused) {
  EXPECT_EQ(attnd_attention(nullptr, &execution_), ATTND_INVALID_ARGUMENT);
  EXPECT_EQ(attnd_attention(&params_, nullptr), ATTND_INVALID_ARGUMENT);
  EXPECT_EQ(attnd_attention_workspace(&params_, &execution_, nullptr), ATTND_INVALID_ARGUMENT);
  EXPECT_EQ(attnd_merge(nullptr, &execution_), ATTND_INVALID_ARGUMENT);
  params_.k.data = nullptr;
  ExpectRefused("k: NULL");
}

TEST_F(CApiTest, KeysMayBeNullWhereThereAreNone) {
  params_.seqlen_k = params_.k.seqlen = params_.v.seqlen = 0;
  params_.k.data = params_.v.data = nullptr;
  ASSERT_EQ(attnd_attention(&params_, &execution_), ATTND_OK) << attnd_last_error();
  EXPECT_EQ(out_, std::vector<float>(out_.size(), 0.0f));
  EXPECT_EQ(lse_[0], -std::numeric_limits<float>::infinity());
}

TEST_F(CApiTest, ShapesAndOptionsAreChecked) {
  params_.k.dim = 16;
  ExpectRefused("k: head_dim 16, q has 8");
  params_.k.dim = kDim;
  params_.q.dtype = 3;
  ExpectRefused("q: dtype 3");
  params_.q.dtype = ATTND_FLOAT32;
  params_.has_window_right = 1;
  params_.window_right = -1;
  ExpectRefused("window_right: -1");
  params_.has_window_right = 0;
  params_.lse_head_stride = 1;
  ExpectRefused("lse: head stride 1");
  params_.lse_head_stride = kSeqlen;
  const std::int32_t cu_seqlens[] = {0, 3};
  params_.cu_seqlens_q = cu_seqlens;
  ExpectRefused("cu_seqlens_k: NULL");
  params_.cu_seqlens_q = nullptr;
  params_.mask.data = cu_seqlens;
  ExpectRefused("mask: data without a shape");
}

TEST_F(CApiTest, LengthsInHostMemoryAreChecked) {
  std::int32_t lengths[] = {kSeqlen + 1};
  params_.lengths_k = lengths;
  ExpectRefused("lengths_k[0]: 4; 0 to 3 is accepted");
  lengths[0] = -1;
  ExpectRefused("lengths_k[0]: -1; 0 to 3 is accepted");
  params_.lengths_k = nullptr;

  params_.batch_size = 2;
  params_.q.batch_stride = params_.k.batch_stride = params_.v.batch_stride = 0;
  params_.out.batch_stride = 0;
  const std::int32_t sound[] = {0, 1, kSeqlen};
  params_.cu_seqlens_k = sound;
  const auto refuse_q = [this](std::vector<std::int32_t> cu_seqlens, const char* words) {
    params_.cu_seqlens_q = cu_seqlens.data();
    ExpectRefused(words);
  };
  refuse_q({1, 2, 3}, "cu_seqlens_q[0]: 1; 0 to 0 is accepted");
  refuse_q({0, 2, 1}, "cu_seqlens_q[2]: 1; 2 to 3 is accepted");
  refuse_q({0, 2, 4}, "cu_seqlens_q[2]: 4; 2 to 3 is accepted");
  params_.seqlen_q = 1;  // the longest sequence
  refuse_q({0, 1, 3}, "cu_seqlens_q[2]: 3; 1 to 2 is accepted");
  params_.cu_seqlens_q = sound;
  params_.seqlen_q = 2;
  EXPECT_EQ(attnd_attention(&params_, &execution_), ATTND_OK) << attnd_last_error();
}

TEST_F(CApiTest, UnknownAlgorithmsAndBackendsAreRefused) {
  execution_.algorithm = "fastest";
  ExpectRefused("algorithm: \"fastest\"");
  execution_.algorithm = nullptr;
  execution_.backend = 7;
  ExpectRefused("backend: 7");
}

TEST_F(CApiTest, ASoundProblemWithoutAKernelIsUnimplemented) {
  execution_.algorithm = "online";
  std::vector<float> probs(2 * kSeqlen * kSeqlen);
  params_.probs = probs.data();
  EXPECT_EQ(attnd_attention(&params_, &execution_), ATTND_UNIMPLEMENTED);
  EXPECT_THAT(attnd_last_error(), HasSubstr("probs"));
}

TEST_F(CApiTest, NoExceptionLeaves) {
  execution_.algorithm = "online";
  execution_.parallel_for = [](void*, std::int64_t, void (*)(void*, std::int64_t), void*) {
    throw std::bad_alloc();
  };
  EXPECT_EQ(attnd_attention(&params_, &execution_), ATTND_RESOURCE_EXHAUSTED);
  execution_.parallel_for = [](void*, std::int64_t, void (*)(void*, std::int64_t), void*) {
    throw 1;
  };
  EXPECT_EQ(attnd_attention(&params_, &execution_), ATTND_INTERNAL);
}

TEST_F(CApiTest, NoExceptionOfATaskPassesThroughTheCallersThreads) {
  struct Caller {
    int tasks = 0;
    int threw = 0;
  } caller;
  execution_.algorithm = "reference";  // allocates in its tasks
  execution_.parallel_for_context = &caller;
  execution_.parallel_for = [](void* context, std::int64_t num_tasks,
                               void (*task)(void*, std::int64_t), void* task_context) {
    for (std::int64_t i = 0; i < num_tasks; ++i) {
      std::thread([&] {
        Caller& counts = *static_cast<Caller*>(context);
        ++counts.tasks;
        allocations_fail = true;
        try {
          task(task_context, i);
        } catch (...) {
          ++counts.threw;
        }
        allocations_fail = false;
      }).join();
    }
  };
  EXPECT_EQ(attnd_attention(&params_, &execution_), ATTND_RESOURCE_EXHAUSTED);
  EXPECT_GT(caller.tasks, 0);
  EXPECT_EQ(caller.threw, 0);
}

TEST_F(CApiTest, ErrorTextBelongsToTheThread) {
  params_.num_kv_heads = 0;
  ExpectRefused("num_kv_heads: 0");
  std::string elsewhere = "unset";
  std::thread([&elsewhere] { elsewhere = attnd_last_error(); }).join();
  EXPECT_EQ(elsewhere, "");
  EXPECT_THAT(attnd_last_error(), HasSubstr("num_kv_heads"));
}

TEST_F(CApiTest, MergesParts) {
  const std::vector<float> parts = {1, 2, 3, 4};  // two parts of one row
  const std::vector<float> lses = {0.0f, 0.0f};
  std::vector<float> out(2);
  attnd_merge_params merge = {sizeof(merge), 2, 1, 2, parts.data(), lses.data(), out.data(), 0, {}};
  float lse = 0;
  merge.lse = &lse;
  ASSERT_EQ(attnd_merge(&merge, &execution_), ATTND_OK) << attnd_last_error();
  EXPECT_EQ(out, (std::vector<float>{2, 3}));
  EXPECT_FLOAT_EQ(lse, std::log(2.0f));
  merge.num_parts = 0;
  EXPECT_EQ(attnd_merge(&merge, &execution_), ATTND_INVALID_ARGUMENT);
  merge.num_parts = 2;
  merge.out = nullptr;
  EXPECT_EQ(attnd_merge(&merge, &execution_), ATTND_INVALID_ARGUMENT);
  EXPECT_STREQ(attnd_last_error(), "out: NULL");
}

TEST_F(CApiTest, ListsKernels) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < attnd_kernel_count(ATTND_CPU); ++i) {
    attnd_kernel_info info = {sizeof(info), nullptr, nullptr};
    ASSERT_EQ(attnd_kernel_at(ATTND_CPU, i, &info), ATTND_OK);
    names.emplace_back(info.name);
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"cpu_online", "cpu_naive", "cpu_reference"}));
  attnd_kernel_info info = {sizeof(info), nullptr, nullptr};
  EXPECT_EQ(attnd_kernel_at(ATTND_CPU, attnd_kernel_count(ATTND_CPU), &info),
            ATTND_INVALID_ARGUMENT);
  EXPECT_EQ(attnd_kernel_count(9), 0);
}

TEST_F(CApiTest, TellsItsVersion) { EXPECT_STREQ(attnd_version(), ATTND_VERSION); }

}  // namespace
