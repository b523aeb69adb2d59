#include "server/rpc/request_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "server/rpc/attend_messages.h"
#include "server/rpc/error_details.h"
#include "server/rpc/tensor_bytes.h"

namespace attnd {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kDense[] = R"pb(
  batch_size: 2
  seqlen_q: 3
  seqlen_k: 5
  num_heads: 4
  num_kv_heads: 2
  head_dim: 16
  head_dim_v: 8
  dtype: DATA_TYPE_FLOAT16
)pb";
constexpr char kPacked[] = R"pb(
  batch_size: 2
  num_heads: 4
  num_kv_heads: 2
  head_dim: 16
  dtype: DATA_TYPE_FLOAT32
  cu_seqlens_q: [ 0, 3, 4 ]
  cu_seqlens_k: [ 0, 1, 6 ]
)pb";

v1::AttentionSpec Spec(const std::string& text) {
  v1::AttentionSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec)) << text;
  return spec;
}

RequestLimits SmallLimits() {
  RequestLimits limits;
  limits.max_batch_size = 1000;
  limits.max_batch_heads = 5000;
  limits.max_probs_bytes = 2 * 4 * 3 * 5 * 4;
  return limits;
}

absl::StatusOr<AttentionProblem> Read(const v1::AttentionSpec& spec) {
  return ProblemFromSpec(spec, SmallLimits());
}

AttentionProblem MustRead(const std::string& text) {
  absl::StatusOr<AttentionProblem> problem = Read(Spec(text));
  EXPECT_TRUE(problem.ok()) << problem.status();
  return problem.ok() ? *std::move(problem) : AttentionProblem();
}

struct Rejection {
  const char* name;
  const char* base;
  std::function<void(v1::AttentionSpec&)> change;
  const char* field;  // in the BadRequest
  const char* text;   // in the message
};

class RejectionTest : public ::testing::TestWithParam<Rejection> {};

TEST_P(RejectionTest, NamesTheFieldItsValueAndWhatIsAccepted) {
  v1::AttentionSpec spec = Spec(GetParam().base);
  ASSERT_TRUE(Read(spec).ok()) << Read(spec).status();
  GetParam().change(spec);
  const absl::Status status = Read(spec).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().text));
  const auto payload = status.GetPayload(kBadRequestUrl);
  ASSERT_TRUE(payload.has_value()) << status;
  EXPECT_THAT(std::string(*payload), HasSubstr(GetParam().field));
}

using S = v1::AttentionSpec&;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void SetShape(v1::ScoreShape* shape, std::int64_t batch, std::int64_t heads, std::int64_t rows,
              std::int64_t cols) {
  shape->set_batch(batch);
  shape->set_heads(heads);
  shape->set_rows(rows);
  shape->set_cols(cols);
}

const Rejection kRejections[] = {
    {"NegativeBatch", kDense, [](S s) { s.set_batch_size(-1); }, "batch_size",
     "batch_size: is -1, accepted: 0 to 1000"},
    {"LargeBatch", kDense, [](S s) { s.set_batch_size(1001); }, "batch_size",
     "batch_size: is 1001, accepted: 0 to 1000"},
    {"HugeBatch", kDense, [](S s) { s.set_batch_size(INT64_MAX); }, "batch_size",
     "9223372036854775807, accepted: 0 to"},
    {"BatchTimesHeads", kDense,
     [](S s) {
       s.set_batch_size(999);
       s.set_num_heads(8);
     },
     "batch_size", "batch_size: is 999 with num_heads 8, accepted: a product of at most 5000"},
    {"NegativeSeqlenQ", kDense, [](S s) { s.set_seqlen_q(-3); }, "seqlen_q",
     "seqlen_q: is -3, accepted: 0 to 2147483647"},
    {"HugeSeqlenK", kDense, [](S s) { s.set_seqlen_k(std::int64_t{1} << 31); }, "seqlen_k",
     "seqlen_k: is 2147483648, accepted: 0 to 2147483647"},
    {"OverflowingMask", kDense,
     [](S s) {
       s.set_batch_size(0);
       s.set_num_heads(65536);
       s.set_seqlen_q(INT32_MAX);
       s.set_seqlen_k(INT32_MAX);
       SetShape(s.mutable_mask_shape(), 0, 65536, INT32_MAX, INT32_MAX);
     },
     "mask", "mask: has 65536 x 2147483647 x 2147483647 x 1 bytes, accepted: fewer than 2^63"},
    {"NoHeads", kDense, [](S s) { s.set_num_heads(0); }, "num_heads",
     "num_heads: is 0, accepted: 1 to 65536"},
    {"NegativeHeads", kDense, [](S s) { s.set_num_heads(-4); }, "num_heads",
     "num_heads: is -4, accepted: 1 to 65536"},
    {"HeadsDoNotDivide", kDense, [](S s) { s.set_num_kv_heads(3); }, "num_kv_heads",
     "num_kv_heads: is 3, accepted: a divisor of num_heads 4"},
    {"MoreKvHeadsThanHeads", kDense, [](S s) { s.set_num_kv_heads(8); }, "num_kv_heads",
     "num_kv_heads: is 8"},
    {"NegativeKvHeads", kDense, [](S s) { s.set_num_kv_heads(-2); }, "num_kv_heads",
     "num_kv_heads: is -2"},
    {"NoHeadDim", kDense, [](S s) { s.set_head_dim(0); }, "head_dim",
     "head_dim: is 0, accepted: a multiple of 8, 8 to 256"},
    {"OddHeadDim", kDense, [](S s) { s.set_head_dim(100); }, "head_dim",
     "head_dim: is 100, accepted: a multiple of 8"},
    {"LargeHeadDim", kDense, [](S s) { s.set_head_dim(264); }, "head_dim", "head_dim: is 264"},
    {"NegativeHeadDimV", kDense, [](S s) { s.set_head_dim_v(-8); }, "head_dim_v",
     "head_dim_v: is -8"},
    {"LargeHeadDimV", kDense, [](S s) { s.set_head_dim_v(512); }, "head_dim_v",
     "head_dim_v: is 512"},
    {"NoDtype", kDense, [](S s) { s.clear_dtype(); }, "dtype",
     "dtype: is not set, accepted: DATA_TYPE_FLOAT32, DATA_TYPE_FLOAT16, DATA_TYPE_BFLOAT16"},
    {"UnknownDtype", kDense, [](S s) { s.set_dtype(static_cast<v1::DataType>(9)); }, "dtype",
     "dtype: is the unknown value 9, accepted: DATA_TYPE_FLOAT32, DATA_TYPE_FLOAT16, "
     "DATA_TYPE_BFLOAT16"},
    {"UnknownOutDtype", kDense, [](S s) { s.set_out_dtype(static_cast<v1::DataType>(-1)); },
     "out_dtype",
     "out_dtype: is the unknown value -1, accepted: DATA_TYPE_FLOAT16 (dtype), DATA_TYPE_FLOAT32; "
     "or not set"},
    {"OtherOutDtype", kDense, [](S s) { s.set_out_dtype(v1::DATA_TYPE_BFLOAT16); }, "out_dtype",
     "out_dtype: is DATA_TYPE_BFLOAT16, accepted: DATA_TYPE_FLOAT16 (dtype), DATA_TYPE_FLOAT32; or "
     "not set"},
    {"PartialInHalf", kDense,
     [](S s) {
       s.set_out_dtype(v1::DATA_TYPE_FLOAT16);
       s.set_return_partial(true);
     },
     "out_dtype",
     "out_dtype: is DATA_TYPE_FLOAT16, accepted: DATA_TYPE_FLOAT32 with return_partial; or not "
     "set"},
    {"OutDtypeBesideFloat32", kPacked, [](S s) { s.set_out_dtype(v1::DATA_TYPE_FLOAT16); },
     "out_dtype", "out_dtype: is DATA_TYPE_FLOAT16, accepted: DATA_TYPE_FLOAT32; or not set"},
    {"UnknownLayout", kDense, [](S s) { s.set_layout(static_cast<v1::TensorLayout>(3)); }, "layout",
     "layout: is the unknown value 3, accepted: TENSOR_LAYOUT_BSHD, TENSOR_LAYOUT_BHSD; or not "
     "set"},
    {"UnknownAlgorithm", kDense, [](S s) { s.set_algorithm(static_cast<v1::Algorithm>(77)); },
     "algorithm",
     "algorithm: is the unknown value 77, accepted: ALGORITHM_NAIVE, ALGORITHM_TWO_PASS, "
     "ALGORITHM_ONLINE, ALGORITHM_FUSED, ALGORITHM_REFERENCE; or not set"},
    {"UnknownBiasDtype", kDense, [](S s) { s.set_bias_dtype(static_cast<v1::DataType>(50)); },
     "bias_dtype",
     "bias_dtype: is the unknown value 50, accepted: DATA_TYPE_FLOAT16 (dtype), "
     "DATA_TYPE_FLOAT32; or not set"},

    {"OneCuSeqlensOnly", kPacked, [](S s) { s.clear_cu_seqlens_k(); }, "cu_seqlens_k",
     "cu_seqlens_k: is empty, accepted with cu_seqlens_q: both"},
    {"OtherCuSeqlensOnly", kPacked, [](S s) { s.clear_cu_seqlens_q(); }, "cu_seqlens_q",
     "cu_seqlens_q: is empty"},
    {"CuSeqlensTooShort", kPacked, [](S s) { s.mutable_cu_seqlens_q()->RemoveLast(); },
     "cu_seqlens_q", "cu_seqlens_q: has 2 entries, accepted: 3 (batch_size + 1)"},
    {"CuSeqlensTooLong", kPacked, [](S s) { s.add_cu_seqlens_k(6); }, "cu_seqlens_k",
     "cu_seqlens_k: has 4 entries"},
    {"CuSeqlensBeginsLate", kPacked, [](S s) { s.set_cu_seqlens_q(0, 1); }, "cu_seqlens_q[0]",
     "cu_seqlens_q[0]: is 1, accepted: 0"},
    {"CuSeqlensFalls", kPacked, [](S s) { s.set_cu_seqlens_k(2, 0); }, "cu_seqlens_k[2]",
     "cu_seqlens_k[2]: is 0, accepted: 1 to 2147483647"},
    {"CuSeqlensNegative", kPacked, [](S s) { s.set_cu_seqlens_k(1, -1); }, "cu_seqlens_k[1]",
     "cu_seqlens_k[1]: is -1"},
    {"CuSeqlensHuge", kPacked, [](S s) { s.set_cu_seqlens_k(2, INT64_MAX); }, "cu_seqlens_k[2]",
     "cu_seqlens_k[2]: is 9223372036854775807, accepted: 1 to 2147483647"},
    {"PackedBhsd", kPacked, [](S s) { s.set_layout(v1::TENSOR_LAYOUT_BHSD); }, "layout",
     "layout: is TENSOR_LAYOUT_BHSD, accepted: TENSOR_LAYOUT_BSHD with cu_seqlens"},
    {"WrongLongest", kPacked, [](S s) { s.set_seqlen_q(4); }, "seqlen_q",
     "seqlen_q: is 4, accepted: 3 (the longest sequence of cu_seqlens_q), or 0"},
    {"LengthsQTooFew", kDense, [](S s) { s.add_lengths_q(1); }, "lengths_q",
     "lengths_q: has 1 entry, accepted: 2 (batch_size)"},
    {"LengthsKTooMany", kDense,
     [](S s) {
       for (int i = 0; i < 3; ++i) s.add_lengths_k(1);
     },
     "lengths_k", "lengths_k: has 3 entries"},
    {"LengthNegative", kDense,
     [](S s) {
       s.add_lengths_k(5);
       s.add_lengths_k(-1);
     },
     "lengths_k[1]", "lengths_k[1]: is -1, accepted: 0 to 5"},
    {"LengthBeyondRoom", kDense,
     [](S s) {
       s.add_lengths_q(4);
       s.add_lengths_q(3);
     },
     "lengths_q[0]", "lengths_q[0]: is 4, accepted: 0 to 3"},
    {"LengthBeyondPackedRoom", kPacked,
     [](S s) {
       s.add_lengths_q(3);
       s.add_lengths_q(2);
     },
     "lengths_q[1]", "lengths_q[1]: is 2, accepted: 0 to 1"},

    {"NanScale", kDense, [](S s) { s.set_softmax_scale(kNan); }, "softmax_scale",
     "softmax_scale: is nan, accepted: a finite number"},
    {"InfiniteScale", kDense, [](S s) { s.set_softmax_scale(-kInfinity); }, "softmax_scale",
     "softmax_scale: is -inf"},
    {"NegativeSoftcap", kDense, [](S s) { s.set_softcap(-1); }, "softcap",
     "softcap: is -1, accepted: a finite number of at least 0"},
    {"NanSoftcap", kDense, [](S s) { s.set_softcap(kNan); }, "softcap", "softcap: is nan"},
    {"InfiniteSoftcap", kDense, [](S s) { s.set_softcap(kInfinity); }, "softcap",
     "softcap: is inf"},
    {"WindowLeft", kDense, [](S s) { s.set_window_left(-2); }, "window_left",
     "window_left: is -2, accepted: -1 (all) or at least 0"},
    {"WindowRight", kDense, [](S s) { s.set_window_right(INT64_MIN); }, "window_right",
     "window_right: is -9223372036854775808"},
    {"WindowRightWithCausal", kDense,
     [](S s) {
       s.set_causal(true);
       s.set_window_right(1);
     },
     "window_right", "window_right: is 1, accepted: -1 or 0 with causal"},

    {"MaskBatch", kDense, [](S s) { SetShape(s.mutable_mask_shape(), 3, 4, 3, 5); },
     "mask_shape.batch", "mask_shape.batch: is 3, accepted: 1, 2 (batch_size)"},
    {"MaskBatchOfOneSequence", kDense,
     [](S s) {
       s.set_batch_size(1);
       SetShape(s.mutable_mask_shape(), 3, 4, 3, 5);
     },
     "mask_shape.batch", "mask_shape.batch: is 3, accepted: 1 (batch_size)"},
    {"MaskHeads", kDense, [](S s) { SetShape(s.mutable_mask_shape(), 2, 2, 3, 5); },
     "mask_shape.heads", "mask_shape.heads: is 2, accepted: 1, 4 (num_heads)"},
    {"MaskRows", kDense, [](S s) { SetShape(s.mutable_mask_shape(), 2, 4, 0, 5); },
     "mask_shape.rows", "mask_shape.rows: is 0, accepted: 1, 3 (seqlen_q)"},
    {"MaskCols", kDense, [](S s) { SetShape(s.mutable_mask_shape(), 2, 4, 3, 1); },
     "mask_shape.cols", "mask_shape.cols: is 1, accepted: 5 (seqlen_k)"},
    {"MaskNegative", kDense, [](S s) { SetShape(s.mutable_mask_shape(), -1, 4, 3, 5); },
     "mask_shape.batch", "is -1"},
    {"EmptyMaskShape", kDense, [](S s) { s.mutable_mask_shape(); }, "mask_shape.batch",
     "mask_shape.batch: is 0"},
    {"BiasCols", kDense, [](S s) { SetShape(s.mutable_bias_shape(), 1, 1, 1, 6); },
     "bias_shape.cols", "bias_shape.cols: is 6, accepted: 5 (seqlen_k)"},
    {"BiasDtype", kDense,
     [](S s) {
       SetShape(s.mutable_bias_shape(), 1, 1, 1, 5);
       s.set_bias_dtype(v1::DATA_TYPE_BFLOAT16);
     },
     "bias_dtype",
     "bias_dtype: is DATA_TYPE_BFLOAT16, accepted: DATA_TYPE_FLOAT16 (dtype), DATA_TYPE_FLOAT32; "
     "or not set"},
    {"AlibiCount", kDense,
     [](S s) {
       for (int i = 0; i < 5; ++i) s.add_alibi_slopes(1);
     },
     "alibi_slopes",
     "alibi_slopes: has 5 entries, accepted: 8 (batch_size * num_heads; or num_heads entries)"},
    {"AlibiNan", kDense,
     [](S s) {
       for (int i = 0; i < 4; ++i) s.add_alibi_slopes(i == 2 ? kNan : 1);
     },
     "alibi_slopes[2]", "alibi_slopes[2]: is nan, accepted: a finite number"},
    {"SinksCount", kDense,
     [](S s) {
       for (int i = 0; i < 8; ++i) s.add_sinks(1);
     },
     "sinks", "sinks: has 8 entries, accepted: 4 (num_heads)"},
    {"SinksNan", kDense,
     [](S s) {
       for (int i = 0; i < 4; ++i) s.add_sinks(kNan);
     },
     "sinks[0]", "sinks[0]: is nan, accepted: a finite number or -inf"},
    {"SinksInfinite", kDense,
     [](S s) {
       for (int i = 0; i < 4; ++i) s.add_sinks(i == 3 ? kInfinity : 0);
     },
     "sinks[3]", "sinks[3]: is inf"},
    {"LargeProbs", kDense,
     [](S s) {
       s.set_return_probs(true);
       s.set_seqlen_k(6);
     },
     "return_probs", "return_probs: needs 576 bytes, accepted: at most 480"},
    {"OverflowingProbs", kDense,
     [](S s) {
       s.set_return_probs(true);
       s.set_batch_size(1000);
       s.set_seqlen_k(INT32_MAX);
       s.set_seqlen_q(INT32_MAX);
     },
     "return_probs",
     "return_probs: has 1000 x 4 x 2147483647 x 2147483647 x 4 bytes, accepted: fewer than 2^63"},
};

INSTANTIATE_TEST_SUITE_P(RequestValidator, RejectionTest, ::testing::ValuesIn(kRejections),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(RequestValidatorTest, RefusesTensorsWhoseSizeOverflows) {
  RequestLimits limits;
  limits.max_batch_heads = INT64_MAX;
  v1::AttentionSpec spec = Spec(kDense);
  spec.set_batch_size(1 << 20);
  spec.set_seqlen_q(INT32_MAX);
  spec.set_num_heads(65536);
  const absl::Status status = ProblemFromSpec(spec, limits).status();
  EXPECT_THAT(status.ToString(),
              HasSubstr("q: has 1048576 x 2147483647 x 65536 x 16 x 2 bytes, accepted: fewer than "
                        "2^63"));
}

TEST(RequestValidatorTest, FillsDefaults) {
  const AttentionProblem problem = MustRead(
      R"pb(
        batch_size: 1 seqlen_q: 2 seqlen_k: 3 num_heads: 4 head_dim: 16 dtype: DATA_TYPE_BFLOAT16
      )pb");
  const AttentionParams& p = problem.params;
  EXPECT_EQ(p.num_kv_heads, 4);
  EXPECT_EQ(p.head_dim_v, 16);
  EXPECT_EQ(p.q.dtype, DataType::kBFloat16);
  EXPECT_EQ(p.out.dtype, DataType::kBFloat16);
  EXPECT_EQ(p.softmax_scale, 0.25f);
  EXPECT_EQ(p.window_left, -1);
  EXPECT_EQ(p.window_right, -1);
  EXPECT_EQ(p.mask.cols, 0);
  EXPECT_EQ(problem.algorithm, "");
  EXPECT_FALSE(problem.want_lse || problem.want_probs || problem.want_diagnostics);
}

TEST(RequestValidatorTest, LayoutsDifferInStridesOnly) {
  const AttentionParams bshd = MustRead(kDense).params;
  EXPECT_EQ(bshd.k.batch_stride, 5 * 2 * 16);
  EXPECT_EQ(bshd.k.seq_stride, 2 * 16);
  EXPECT_EQ(bshd.k.head_stride, 16);
  const AttentionParams bhsd = MustRead(std::string(kDense) + "layout: TENSOR_LAYOUT_BHSD").params;
  EXPECT_EQ(bhsd.k.batch_stride, 5 * 2 * 16);
  EXPECT_EQ(bhsd.k.seq_stride, 16);
  EXPECT_EQ(bhsd.k.head_stride, 5 * 16);
  EXPECT_EQ(bhsd.out.head_stride, 3 * 8);
  EXPECT_EQ(bhsd.lse_batch_stride, 4 * 3);
  EXPECT_EQ(bhsd.lse_head_stride, 3);
}

TEST(RequestValidatorTest, PackedSequences) {
  const AttentionProblem problem = MustRead(kPacked);
  const AttentionParams& p = problem.params;
  EXPECT_THAT(problem.cu_seqlens_k, ElementsAre(0, 1, 6));
  EXPECT_EQ(p.seqlen_q, 3);
  EXPECT_EQ(p.seqlen_k, 5);
  EXPECT_EQ(p.q.batch, 1);
  EXPECT_EQ(p.q.seqlen, 4);
  EXPECT_EQ(p.q.batch_stride, 0);
  EXPECT_EQ(p.v.seqlen, 6);
  EXPECT_EQ(p.lse_batch_stride, 0);
  EXPECT_EQ(p.lse_head_stride, 4);
  EXPECT_EQ(TensorBytes(problem, InputTensor::kQ), 4 * 4 * 16 * 4);
  EXPECT_EQ(TensorBytes(problem, InputTensor::kV), 6 * 2 * 16 * 4);
}

TEST(RequestValidatorTest, BroadcastDimensionsHaveStrideZero) {
  const AttentionParams p = MustRead(std::string(kDense) + R"pb(
                              mask_shape { batch: 2 heads: 1 rows: 3 cols: 5 }
                              bias_shape { batch: 1 heads: 4 rows: 1 cols: 5 }
                              bias_dtype: DATA_TYPE_FLOAT32
                            )pb")
                                .params;
  EXPECT_EQ(p.mask.batch_stride, 15);
  EXPECT_EQ(p.mask.head_stride, 0);
  EXPECT_EQ(p.mask.row_stride, 5);
  EXPECT_EQ(p.bias.batch_stride, 0);
  EXPECT_EQ(p.bias.head_stride, 5);
  EXPECT_EQ(p.bias.row_stride, 0);
  EXPECT_EQ(p.bias.dtype, DataType::kFloat32);
}

TEST(RequestValidatorTest, OptionsArrive) {
  const AttentionProblem problem = MustRead(std::string(kDense) + R"pb(
    out_dtype: DATA_TYPE_FLOAT32
    softmax_scale: 0
    softcap: 30
    causal: true
    window_left: 7
    window_right: 0
    lengths_q: [ 0, 3 ]
    lengths_k: [ 5, 0 ]
    alibi_slopes: [ 1, 2, 3, 4, 5, 6, 7, 8 ]
    sinks: [ 1, -inf, 0, 2 ]
    return_lse: true
    return_probs: true
    return_diagnostics: true
    algorithm: ALGORITHM_TWO_PASS
  )pb");
  const AttentionParams& p = problem.params;
  EXPECT_EQ(p.out.dtype, DataType::kFloat32);
  EXPECT_EQ(p.softmax_scale, 0.0f);
  EXPECT_EQ(p.softcap, 30.0f);
  EXPECT_TRUE(p.causal);
  EXPECT_EQ(p.window_left, 7);
  EXPECT_EQ(p.window_right, 0);
  EXPECT_THAT(problem.lengths_q, ElementsAre(0, 3));
  EXPECT_THAT(problem.lengths_k, ElementsAre(5, 0));
  EXPECT_EQ(problem.alibi_slopes.size(), 8u);
  EXPECT_EQ(p.alibi_batch_stride, 4);
  EXPECT_THAT(problem.sinks, ElementsAre(1, -kInfinity, 0, 2));
  EXPECT_TRUE(problem.want_lse && problem.want_probs && problem.want_diagnostics);
  EXPECT_EQ(problem.algorithm, "two_pass");
}

TEST(RequestValidatorTest, SlopesPerHeadServeEverySequence) {
  const AttentionProblem problem = MustRead(std::string(kDense) + "alibi_slopes: [ 1, 2, 3, 4 ]");
  EXPECT_EQ(problem.params.alibi_batch_stride, 0);
}

TEST(RequestValidatorTest, PartialResultsAreFloat32WithLse) {
  const AttentionProblem problem = MustRead(std::string(kDense) + "return_partial: true");
  EXPECT_EQ(problem.params.out.dtype, DataType::kFloat32);
  EXPECT_TRUE(problem.want_lse);
}

TEST(RequestValidatorTest, AWindowWiderThanAnySequenceIsOpen) {
  const AttentionParams p =
      MustRead(std::string(kDense) + "window_left: 9223372036854775807 window_right: 4294967296")
          .params;
  EXPECT_EQ(p.window_left, -1);
  EXPECT_EQ(p.window_right, -1);
}

TEST(RequestValidatorTest, EmptyProblemsAreSound) {
  MustRead(
      "batch_size: 0 seqlen_q: 3 seqlen_k: 5 num_heads: 4 head_dim: 16 dtype: DATA_TYPE_FLOAT16");
  MustRead(
      "batch_size: 2 seqlen_q: 0 seqlen_k: 5 num_heads: 4 head_dim: 16 dtype: DATA_TYPE_FLOAT16");
  MustRead(
      "batch_size: 2 seqlen_q: 3 seqlen_k: 0 num_heads: 4 head_dim: 16 dtype: DATA_TYPE_FLOAT16");
  MustRead(
      "batch_size: 0 num_heads: 4 head_dim: 16 dtype: DATA_TYPE_FLOAT16 cu_seqlens_q: 0 "
      "cu_seqlens_k: 0");
}

TEST(TensorBytesTest, TellsWhatASizeIsMadeOf) {
  const AttentionProblem problem = MustRead(kDense);
  const InputTensorBytes right = {2 * 3 * 4 * 16 * 2, 2 * 5 * 2 * 16 * 2, 2 * 5 * 2 * 8 * 2, 0, 0};
  EXPECT_TRUE(CheckTensorBytes(problem, right).ok());
  const auto with = [&](InputTensor tensor, std::int64_t bytes) {
    InputTensorBytes sizes = right;
    sizes[static_cast<int>(tensor)] = bytes;
    return CheckTensorBytes(problem, sizes).ToString();
  };
  EXPECT_THAT(with(InputTensor::kK, 4096),
              HasSubstr("k: 4096 bytes, the spec needs 640 (batch_size 2 x seqlen_k 5 x "
                        "num_kv_heads 2 x head_dim 16 x 2 "
                        "bytes of float16)"));
  EXPECT_THAT(with(InputTensor::kQ, 0),
              HasSubstr("q: 0 bytes, the spec needs 768 (batch_size 2 x seqlen_q 3 x num_heads 4"));
  EXPECT_THAT(with(InputTensor::kV, 319), HasSubstr("v: 319 bytes, the spec needs 320"));
  EXPECT_THAT(with(InputTensor::kMask, 8),
              HasSubstr("mask: 8 bytes, the spec needs 0 (there is no mask_shape)"));
  EXPECT_THAT(with(InputTensor::kBias, 8),
              HasSubstr("bias: 8 bytes, the spec needs 0 (there is no bias_shape)"));
}

TEST(TensorBytesTest, ExplainsPackedTensorsAndScoreArrays) {
  const AttentionProblem problem =
      MustRead(std::string(kPacked) + "mask_shape { batch: 2 heads: 1 rows: 3 cols: 5 }");
  EXPECT_THAT(CheckTensorBytes(problem, {1, 0, 0, 0, 0}).ToString(),
              HasSubstr("q: 1 bytes, the spec needs 1024 (total_q 4 x num_heads 4 x head_dim 16 x "
                        "4 bytes of float32)"));
  EXPECT_THAT(CheckTensorBytes(problem, {1024, 768, 768, 29, 0}).ToString(),
              HasSubstr("mask: 29 bytes, the spec needs 30 (mask_shape 2 x 1 x 3 x 5)"));
}

// What is wrong with a message that is no AttendRequest or AttendStreamRequest.
std::string AttendError(const std::string& message) {
  const std::vector<grpc::Slice> slices = {grpc::Slice(message)};
  return ReadAttendRequest(WireBytesView(slices)).status().ToString();
}

std::string StreamError(const std::string& message) {
  const std::vector<grpc::Slice> slices = {grpc::Slice(message)};
  return ReadAttendStreamRequest(WireBytesView(slices)).status().ToString();
}

TEST(AttendMessagesTest, RefusesFieldsGivenTwice) {
  v1::AttendRequest q;
  q.set_q("abc");
  v1::AttendRequest spec;
  spec.mutable_spec()->set_batch_size(1);
  EXPECT_THAT(AttendError(q.SerializeAsString() + q.SerializeAsString()),
              HasSubstr("q: is given twice, accepted: once"));
  EXPECT_THAT(AttendError(spec.SerializeAsString() + spec.SerializeAsString()),
              HasSubstr("spec: is given twice"));
}

TEST(AttendMessagesTest, RefusesWrongWireTypesAndBrokenSpecs) {
  EXPECT_THAT(AttendError("\x10\x01"),
              HasSubstr("q: has wire type varint, accepted: length-delimited"));
  EXPECT_THAT(AttendError("\x08\x01"), HasSubstr("spec: has wire type varint"));
  EXPECT_THAT(AttendError("\x0a\x01\x08"),
              HasSubstr("spec: has 1 bytes that are not protobuf, accepted: a serialised "
                        "attnd.v1.AttentionSpec"));
  const std::string large(std::size_t{17} << 20, '\0');
  v1::AttendRequest as_q;
  as_q.set_q(large);
  std::string message = as_q.SerializeAsString();
  message[0] = 0x0a;
  EXPECT_THAT(AttendError(message),
              HasSubstr("spec: has 17825792 bytes, accepted: at most 16777216"));
}

TEST(AttendMessagesTest, SaysThatTheSpecIsMissing) {
  constexpr char kAccepted[] =
      ", accepted: an attnd.v1.AttentionSpec with at least batch_size, num_heads, head_dim and "
      "dtype";
  const std::string empty_spec("\x0a\x00", 2);
  v1::AttendRequest q;
  q.set_q("abc");
  for (const std::string& message : {std::string(), q.SerializeAsString()}) {
    EXPECT_THAT(AttendError(message), HasSubstr(std::string("spec: is missing") + kAccepted));
  }
  EXPECT_THAT(AttendError(empty_spec + q.SerializeAsString()),
              HasSubstr(std::string("spec: is empty") + kAccepted));
  EXPECT_THAT(StreamError(empty_spec), HasSubstr(std::string("header: is empty") + kAccepted));
}

TEST(AttendMessagesTest, SkipsUnknownFields) {
  const std::string unknown = "\x78\x05";  // field 15
  v1::AttendRequest q;
  q.mutable_spec()->set_batch_size(1);
  q.set_q("abc");
  const std::string message = unknown + q.SerializeAsString() + unknown;
  const std::vector<grpc::Slice> slices = {grpc::Slice(message)};
  const auto request = ReadAttendRequest(WireBytesView(slices));
  ASSERT_TRUE(request.ok()) << request.status();
  EXPECT_EQ(request->tensors[0].ToString(), "abc");
}

TEST(AttendMessagesTest, StreamMessagesHoldOneThing) {
  v1::AttendStreamRequest header;
  header.mutable_header()->set_batch_size(1);
  v1::AttendStreamRequest chunk;
  chunk.mutable_chunk()->set_tensor(v1::TENSOR_ID_Q);
  EXPECT_THAT(StreamError(""), HasSubstr("message: is empty, accepted: a header or a chunk, once"));
  EXPECT_THAT(StreamError("\x78\x05"), HasSubstr("message: is empty"));
  EXPECT_THAT(StreamError(header.SerializeAsString() + chunk.SerializeAsString()),
              HasSubstr("message: has several"));
  EXPECT_THAT(StreamError(std::string("\x12\x00", 2)),
              HasSubstr("chunk.tensor: is TENSOR_ID_UNSPECIFIED, accepted: TENSOR_ID_Q"));
  chunk.mutable_chunk()->set_tensor(v1::TENSOR_ID_OUT);
  EXPECT_THAT(StreamError(chunk.SerializeAsString()), HasSubstr("chunk.tensor: is TENSOR_ID_OUT"));
  chunk.mutable_chunk()->set_tensor(static_cast<v1::TensorId>(99));
  EXPECT_THAT(StreamError(chunk.SerializeAsString()),
              HasSubstr("chunk.tensor: is the unknown value 99"));
}

// Also where the first copy holds nothing: field 2 of the request, in it tensor 1, and data twice.
TEST(AttendMessagesTest, RefusesDataGivenTwice) {
  const std::string message("\x12\x07\x08\x01\x1a\x00\x1a\x01x", 9);
  EXPECT_THAT(StreamError(message), HasSubstr("chunk.data: is given twice, accepted: once"));
}

TEST(AttendMessagesTest, ChunksKeepTheirOffsetAndBytes) {
  v1::AttendStreamRequest message;
  message.mutable_chunk()->set_tensor(v1::TENSOR_ID_BIAS);
  message.mutable_chunk()->set_offset_bytes(-7);
  message.mutable_chunk()->set_data("abcd");
  const std::string text = message.SerializeAsString();
  const std::vector<grpc::Slice> slices = {grpc::Slice(text)};
  const auto request = ReadAttendStreamRequest(WireBytesView(slices));
  ASSERT_TRUE(request.ok()) << request.status();
  const auto& chunk = std::get<TensorChunkView>(*request);
  EXPECT_EQ(chunk.tensor, InputTensor::kBias);
  EXPECT_EQ(chunk.offset_bytes, -7);
  EXPECT_EQ(chunk.data.ToString(), "abcd");
}

}  // namespace
}  // namespace attnd
