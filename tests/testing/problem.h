// Builds attention problems of any layout and option in host memory, for every test that needs one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/attention_params.h"
#include "tests/testing/arena.h"
#include "tests/testing/random_values.h"

namespace attnd::testing {

enum class Layout { kBshd, kBhsd, kPacked };

// Which dimensions of a mask or bias have their full size; the others are 1.
enum class ScoreArray { kNone, kFull, kPerBatch, kPerHead, kPerRow, kColumnsOnly };

enum class Slopes { kNone, kPerHead, kPerBatchAndHead };

// What to build. The names are those of AttentionParams.
struct ProblemSpec {
  std::string name;  // a test name: letters, digits, underscores
  std::int64_t batch_size = 1;
  std::int64_t seqlen_q = 1;
  std::int64_t seqlen_k = 1;
  std::int64_t num_heads = 1;
  std::int64_t num_kv_heads = 1;
  std::int64_t head_dim = 64;
  std::int64_t head_dim_v = 0;  // 0: head_dim
  DataType dtype = DataType::kFloat32;
  std::optional<DataType> out_dtype;  // absent: dtype

  Layout layout = Layout::kBshd;
  std::int64_t slack = 0;  // unused elements after each row, sequence and batch entry
  // Packed: rows that each sequence has, batch_size entries; empty: seqlen_q and seqlen_k.
  std::vector<std::int32_t> rooms_q;
  std::vector<std::int32_t> rooms_k;
  std::vector<std::int32_t> lengths_q;  // rows in use; empty: all
  std::vector<std::int32_t> lengths_k;

  std::optional<float> softmax_scale;  // absent: 1 / sqrt(head_dim)
  float softcap = 0.0f;
  bool causal = false;
  std::int64_t window_left = -1;
  std::int64_t window_right = -1;
  ScoreArray mask = ScoreArray::kNone;  // three in ten elements forbid
  bool mask_empty_rows = false;         // every fifth row of the mask forbids all
  // Not 0: the mask is made of squares of so many rows and keys. Of half of them it forbids all, of
  // a quarter nothing.
  std::int64_t mask_square = 0;
  ScoreArray bias = ScoreArray::kNone;
  std::optional<DataType> bias_dtype;  // absent: dtype
  std::int64_t score_slack = 0;        // unused elements after each row of mask and bias
  bool bias_minus_infinity = false;    // one element in seven is -inf
  Slopes alibi = Slopes::kNone;
  bool sinks = false;

  bool lse = true;
  bool probs = false;

  Distribution distribution = Distribution::kNormal;  // of q, k and v
  float amplitude = 1.0f;                             // factor on q and k
  std::uint64_t seed = 1;
};

// One problem with its memory. Everything in the inputs that is not in use (gaps between strides,
// rows past a length, rows past the last packed sequence, guards) holds NaN.
class Problem {
 public:
  explicit Problem(ProblemSpec spec);

  const ProblemSpec& spec() const { return spec_; }

  // The problem in the host memory of this object.
  const AttentionParams& params() const { return host_params_; }
  // The same with inputs() and outputs() copied to other places.
  AttentionParams ParamsAt(const std::byte* inputs, std::byte* outputs) const;
  const Arena& inputs() const { return inputs_; }
  Arena& outputs() { return outputs_; }

  // Elements of the inputs, to plant values in.
  void SetQ(std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t d, float value);
  void SetK(std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t d, float value);
  void SetV(std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t d, float value);
  void SetBias(std::int64_t b, std::int64_t head, std::int64_t row, std::int64_t j, float value);
  void SetMask(std::int64_t b, std::int64_t head, std::int64_t row, std::int64_t j, bool value);
  void SetAlibiSlope(std::int64_t head, float value);  // of the first sequence, or of all
  void SetSink(std::int64_t head, float value);

  // Elements of the results. Rows inside the sequence's room only.
  float Out(std::int64_t b, std::int64_t row, std::int64_t head, std::int64_t d);
  float Lse(std::int64_t b, std::int64_t head, std::int64_t row);
  float Probs(std::int64_t b, std::int64_t head, std::int64_t row, std::int64_t j);

  // Fills the outputs with poison again.
  void PoisonOutputs() { outputs_.Poison(); }
  // How many bytes of outputs() that belong to no result differ from poison.
  std::int64_t CountStrayWrites();

  // Sequence `b` by itself: the same values in a dense problem of batch_size 1 without lengths.
  Problem Extract(std::int64_t b);

 private:
  // Where each array of the inputs and outputs begins, in bytes; -1: absent.
  struct Offsets {
    std::int64_t q = -1, k = -1, v = -1, mask = -1, bias = -1;
    std::int64_t cu_seqlens_q = -1, cu_seqlens_k = -1, lengths_q = -1, lengths_k = -1;
    std::int64_t alibi_slopes = -1, sinks = -1;
    std::int64_t out = -1, lse = -1, probs = -1;
  };

  // Extract, for the tensors and for the arrays over the scores.
  void CopyTensors(std::int64_t b, Problem& alone);
  void CopyScoreArrays(std::int64_t b, Problem& alone);

  void DescribeTensors();
  void DescribeScoreArrays();
  void Reserve();
  void WriteSmallArrays();
  void FillTensors();
  void FillScoreArrays();
  void FillScoreRow(std::int64_t b, std::int64_t head, std::int64_t row, std::int64_t seqlen_k,
                    RandomValues& random);

  ProblemSpec spec_;
  AttentionParams shape_;  // all of the problem but its pointers
  AttentionParams host_params_;
  Offsets offsets_;
  Arena inputs_;
  Arena outputs_;
};

}  // namespace attnd::testing
