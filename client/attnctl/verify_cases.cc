#include "client/attnctl/verify_cases.h"

#include <functional>
#include <utility>

namespace attnd::attnctl {
namespace {

struct Sizes {
  std::int64_t batch_size = 1;
  std::int64_t seqlen_q = 64;
  std::int64_t seqlen_k = 64;
  std::int64_t num_heads = 4;
  std::int64_t num_kv_heads = 4;
  std::int64_t head_dim = 64;
};

v1::AttentionSpec SpecOf(const Sizes& sizes) {
  v1::AttentionSpec spec;
  spec.set_batch_size(sizes.batch_size);
  spec.set_seqlen_q(sizes.seqlen_q);
  spec.set_seqlen_k(sizes.seqlen_k);
  spec.set_num_heads(sizes.num_heads);
  spec.set_num_kv_heads(sizes.num_kv_heads);
  spec.set_head_dim(sizes.head_dim);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.set_return_lse(true);
  return spec;
}

void SetShape(v1::ScoreShape& shape, std::int64_t batch, std::int64_t heads, std::int64_t rows,
              std::int64_t cols) {
  shape.set_batch(batch);
  shape.set_heads(heads);
  shape.set_rows(rows);
  shape.set_cols(cols);
}

class CaseList {
 public:
  // Adds a problem of `sizes` with what `change` sets.
  void Add(std::string name, const Sizes& sizes,
           const std::function<void(v1::AttentionSpec&)>& change = {}) {
    VerifyCase& added = cases_.emplace_back(VerifyCase{std::move(name), SpecOf(sizes)});
    if (change) change(added.spec);
  }

  std::vector<VerifyCase> Take() { return std::move(cases_); }

 private:
  std::vector<VerifyCase> cases_;
};

void AddShapes(CaseList& cases) {
  cases.Add("one_key", {.seqlen_q = 1, .seqlen_k = 1, .head_dim = 8});
  cases.Add("no_keys", {.seqlen_q = 5, .seqlen_k = 0});
  cases.Add("no_queries", {.seqlen_q = 0, .seqlen_k = 5});
  cases.Add("tile_less_one", {.seqlen_q = 63, .seqlen_k = 63});
  cases.Add("tile_and_one", {.seqlen_q = 65, .seqlen_k = 65});
  cases.Add("odd_lengths", {.batch_size = 2, .seqlen_q = 77, .seqlen_k = 131, .head_dim = 40});
  cases.Add("single_query", {.batch_size = 3, .seqlen_q = 1, .seqlen_k = 777, .head_dim = 128});
  cases.Add("wide_heads",
            {.seqlen_q = 33, .seqlen_k = 70, .num_heads = 2, .num_kv_heads = 2, .head_dim = 256});
  cases.Add("gqa", {.batch_size = 2, .num_heads = 8, .num_kv_heads = 2});
  cases.Add("mqa", {.num_heads = 8, .num_kv_heads = 1, .head_dim = 128});
  cases.Add("bhsd", {.batch_size = 2, .seqlen_q = 50, .seqlen_k = 90},
            [](v1::AttentionSpec& spec) { spec.set_layout(v1::TENSOR_LAYOUT_BHSD); });
  cases.Add("wider_v", {}, [](v1::AttentionSpec& spec) { spec.set_head_dim_v(96); });
}

void AddMasks(CaseList& cases) {
  const auto causal = [](v1::AttentionSpec& spec) { spec.set_causal(true); };
  cases.Add("causal", {.seqlen_q = 129, .seqlen_k = 129}, causal);
  cases.Add("causal_more_queries", {.seqlen_q = 100, .seqlen_k = 40}, causal);
  cases.Add("causal_more_keys", {.seqlen_q = 40, .seqlen_k = 100}, causal);
  cases.Add("window", {.seqlen_q = 150, .seqlen_k = 150}, [](v1::AttentionSpec& spec) {
    spec.set_window_left(20);
    spec.set_window_right(3);
  });
  cases.Add("lengths", {.batch_size = 3, .seqlen_q = 40, .seqlen_k = 80},
            [](v1::AttentionSpec& spec) {
              for (const std::int64_t length : {40, 17, 0}) spec.add_lengths_q(length);
              for (const std::int64_t length : {80, 33, 7}) spec.add_lengths_k(length);
            });
  cases.Add("packed", {.batch_size = 3, .seqlen_q = 0, .seqlen_k = 0}, [](v1::AttentionSpec& spec) {
    for (const std::int64_t begin : {0, 30, 30, 95}) spec.add_cu_seqlens_q(begin);
    for (const std::int64_t begin : {0, 64, 70, 150}) spec.add_cu_seqlens_k(begin);
    spec.set_causal(true);
  });
  cases.Add("mask", {.batch_size = 2, .seqlen_q = 60, .seqlen_k = 70},
            [](v1::AttentionSpec& spec) { SetShape(*spec.mutable_mask_shape(), 2, 4, 60, 70); });
  cases.Add("mask_of_keys", {.batch_size = 2, .seqlen_q = 60, .seqlen_k = 70},
            [](v1::AttentionSpec& spec) { SetShape(*spec.mutable_mask_shape(), 2, 1, 1, 70); });
}

void AddScoreOptions(CaseList& cases) {
  const Sizes sizes{.seqlen_q = 60, .seqlen_k = 90};
  cases.Add("bias", {.batch_size = 2, .seqlen_q = 60, .seqlen_k = 70},
            [](v1::AttentionSpec& spec) { SetShape(*spec.mutable_bias_shape(), 1, 4, 60, 70); });
  cases.Add("alibi", sizes, [](v1::AttentionSpec& spec) {
    for (const float slope : {0.5f, 0.25f, 0.125f, 0.0625f}) spec.add_alibi_slopes(slope);
    spec.set_causal(true);
  });
  cases.Add("softcap", sizes, [](v1::AttentionSpec& spec) {
    spec.set_softcap(2.0f);
    spec.set_softmax_scale(0.5f);
  });
  cases.Add("sinks", sizes, [](v1::AttentionSpec& spec) {
    for (const float sink : {0.0f, 1.5f, -2.0f, 4.0f}) spec.add_sinks(sink);
  });
  cases.Add("large_scores", {}, [](v1::AttentionSpec& spec) { spec.set_softmax_scale(8.0f); });
  cases.Add("partial", sizes, [](v1::AttentionSpec& spec) { spec.set_return_partial(true); });
  cases.Add("probs", {.seqlen_q = 30, .seqlen_k = 45},
            [](v1::AttentionSpec& spec) { spec.set_return_probs(true); });
  cases.Add("float32_out", {},
            [](v1::AttentionSpec& spec) { spec.set_out_dtype(v1::DATA_TYPE_FLOAT32); });
}

}  // namespace

std::vector<VerifyCase> VerifyCases() {
  CaseList cases;
  AddShapes(cases);
  AddMasks(cases);
  AddScoreOptions(cases);
  return cases.Take();
}

}  // namespace attnd::attnctl
