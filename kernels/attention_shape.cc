#include "kernels/attention_shape.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/status_macros.h"

namespace attnd {
namespace {

// The name of a dtype, for StrCat: Abseil's string_view need not be the standard one.
absl::string_view Name(DataType dtype) {
  const std::string_view name = NameOf(dtype);
  return {name.data(), name.size()};
}

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

absl::Status CheckAtLeast(absl::string_view field, std::int64_t value, std::int64_t smallest) {
  if (value >= smallest) return absl::OkStatus();
  return Invalid(field, ": ", value, "; at least ", smallest, " is accepted");
}

absl::Status CheckHeadDim(absl::string_view field, std::int64_t value) {
  if (value >= kHeadDimMultiple && value <= kMaxHeadDim && value % kHeadDimMultiple == 0)
    return absl::OkStatus();
  return Invalid(field, ": ", value, "; a multiple of ", kHeadDimMultiple, " from ",
                 kHeadDimMultiple, " to ", kMaxHeadDim, " is accepted");
}

absl::Status CheckSizes(const AttentionParams& p) {
  RETURN_IF_ERROR(CheckAtLeast("batch_size", p.batch_size, 0));
  RETURN_IF_ERROR(CheckAtLeast("seqlen_q", p.seqlen_q, 0));
  RETURN_IF_ERROR(CheckAtLeast("seqlen_k", p.seqlen_k, 0));
  RETURN_IF_ERROR(CheckAtLeast("num_heads", p.num_heads, 1));
  RETURN_IF_ERROR(CheckAtLeast("num_kv_heads", p.num_kv_heads, 1));
  RETURN_IF_ERROR(CheckHeadDim("head_dim", p.head_dim));
  RETURN_IF_ERROR(CheckHeadDim("head_dim_v", p.head_dim_v));
  if (p.num_heads % p.num_kv_heads != 0) {
    return Invalid("num_kv_heads: ", p.num_kv_heads, " does not divide num_heads ", p.num_heads);
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const AttentionParams& p) {
  if (!std::isfinite(p.softmax_scale)) {
    return Invalid("softmax_scale: ", p.softmax_scale, "; a finite number is accepted");
  }
  if (!std::isfinite(p.softcap) || p.softcap < 0) {
    return Invalid("softcap: ", p.softcap, "; a finite number of at least 0 is accepted");
  }
  RETURN_IF_ERROR(CheckAtLeast("window_left", p.window_left, -1));
  RETURN_IF_ERROR(CheckAtLeast("window_right", p.window_right, -1));
  if (p.causal && p.window_right > 0) {
    return Invalid("window_right: ", p.window_right, " with causal; -1 or 0 is accepted");
  }
  if (p.alibi_batch_stride != 0 && p.alibi_batch_stride != p.num_heads) {
    return Invalid("alibi_slopes: batch stride ", p.alibi_batch_stride, "; 0 or num_heads ",
                   p.num_heads, " is accepted");
  }
  return absl::OkStatus();
}

absl::Status CheckDataType(absl::string_view field, DataType dtype) {
  if (dtype <= DataType::kBFloat16) return absl::OkStatus();
  return Invalid(field, ": dtype ", static_cast<int>(dtype), " is no data type");
}

absl::Status CheckTypeOfQOrFloat32(absl::string_view field, DataType dtype, DataType q_dtype) {
  if (dtype == q_dtype || dtype == DataType::kFloat32) return absl::OkStatus();
  const std::string type_of_q =
      q_dtype == DataType::kFloat32 ? "" : absl::StrCat(Name(q_dtype), " or ");
  return Invalid(field, ": dtype ", Name(dtype), "; ", type_of_q, "float32 is accepted");
}

// A dimension of a view: how many entries, and how many elements apart.
struct Dimension {
  absl::string_view name;
  std::int64_t size = 0;
  std::int64_t stride = 0;
};

// Strides must not be negative, and both the number of elements and the place of the last one must
// fit in 63 bits of bytes. Sizes of 0 count as 1 here, so that no product of sizes overflows
// wherever it is formed.
absl::Status CheckExtent(absl::string_view field, absl::Span<const Dimension> dimensions,
                         std::int64_t element_bytes) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::int64_t count = element_bytes;
  std::int64_t last = element_bytes;
  for (const Dimension& d : dimensions) {
    RETURN_IF_ERROR(CheckAtLeast(absl::StrCat(field, ": ", d.name, " stride"), d.stride, 0));
    const std::int64_t size = std::max<std::int64_t>(d.size, 1);
    const std::int64_t reach = CheckedMultiply(CheckedMultiply(size - 1, d.stride), element_bytes);
    count = CheckedMultiply(count, size);
    if (count < 0 || reach < 0 || reach > kMax - last)
      return Invalid(field, ": does not fit in 63 bits of bytes");
    last += reach;
  }
  return absl::OkStatus();
}

// Writes to an output must not meet: from the smallest stride up, each must reach past all that the
// smaller ones span.
absl::Status CheckNoOverlap(absl::string_view field, std::array<Dimension, 3> dimensions,
                            std::int64_t row_elements) {
  const auto is_empty = [](const Dimension& d) { return d.size == 0; };
  if (std::any_of(dimensions.begin(), dimensions.end(), is_empty)) return absl::OkStatus();
  std::sort(dimensions.begin(), dimensions.end(),
            [](const Dimension& a, const Dimension& b) { return a.stride < b.stride; });
  std::int64_t span = row_elements;
  for (const Dimension& d : dimensions) {
    if (d.size <= 1) continue;
    if (d.stride < span) {
      return Invalid(field, ": ", d.name, " stride ", d.stride, " makes entries overlap; at least ",
                     span, " is accepted");
    }
    span += (d.size - 1) * d.stride;
  }
  return absl::OkStatus();
}

// What a q, k, v or out view must be.
struct ExpectedTensor {
  absl::string_view field;
  absl::string_view seqlen_field;
  absl::string_view heads_field;
  absl::string_view dim_field;
  std::int64_t seqlen = 0;
  std::int64_t heads = 0;
  std::int64_t dim = 0;
};

// A view of batch 1 may be packed: its seqlen then is the total, which the longest sequence cannot
// exceed.
template <typename View>
absl::Status CheckTensor(const View& view, const AttentionParams& p,
                         const ExpectedTensor& expected) {
  const absl::string_view field = expected.field;
  RETURN_IF_ERROR(CheckDataType(field, view.dtype));
  if (view.batch != p.batch_size && view.batch != 1) {
    return Invalid(field, ": batch ", view.batch, ", batch_size is ", p.batch_size);
  }
  const bool may_be_packed = view.batch == 1;
  if (may_be_packed ? view.seqlen < expected.seqlen : view.seqlen != expected.seqlen) {
    return Invalid(field, ": seqlen ", view.seqlen, ", ", expected.seqlen_field, " is ",
                   expected.seqlen);
  }
  if (view.heads != expected.heads) {
    return Invalid(field, ": heads ", view.heads, ", ", expected.heads_field, " is ",
                   expected.heads);
  }
  if (view.dim != expected.dim)
    return Invalid(field, ": head_dim ", view.dim, ", ", expected.dim_field, " ", expected.dim);
  if (view.batch == 1 && p.batch_size != 1 && view.batch_stride != 0) {
    return Invalid(field, ": batch stride ", view.batch_stride,
                   " of packed sequences; 0 is accepted");
  }
  const std::array<Dimension, 4> dimensions = {{{"head_dim", view.dim, 1},
                                                {"head", view.heads, view.head_stride},
                                                {"seqlen", view.seqlen, view.seq_stride},
                                                {"batch", view.batch, view.batch_stride}}};
  return CheckExtent(field, dimensions, SizeOf(view.dtype));
}

absl::Status CheckOut(const AttentionParams& p) {
  RETURN_IF_ERROR(CheckTensor(
      p.out, p,
      {"out", "seqlen_q", "num_heads", "head_dim_v is", p.seqlen_q, p.num_heads, p.head_dim_v}));
  RETURN_IF_ERROR(CheckTypeOfQOrFloat32("out", p.out.dtype, p.q.dtype));
  return CheckNoOverlap("out",
                        {{{"head", p.out.heads, p.out.head_stride},
                          {"seqlen", p.out.seqlen, p.out.seq_stride},
                          {"batch", p.out.batch, p.out.batch_stride}}},
                        p.out.dim);
}

// Sequences are packed in all tensors or in none, and what belongs together has the same room.
absl::Status CheckTensorsAgree(const AttentionParams& p) {
  if (p.k.dtype != p.q.dtype)
    return Invalid("k: dtype ", Name(p.k.dtype), ", q has ", Name(p.q.dtype));
  if (p.v.dtype != p.q.dtype)
    return Invalid("v: dtype ", Name(p.v.dtype), ", q has ", Name(p.q.dtype));
  if (p.out.batch != p.q.batch) return Invalid("out: batch ", p.out.batch, ", q has ", p.q.batch);
  if (p.out.seqlen != p.q.seqlen)
    return Invalid("out: seqlen ", p.out.seqlen, ", q has ", p.q.seqlen);
  if (p.k.batch != p.q.batch) return Invalid("k: batch ", p.k.batch, ", q has ", p.q.batch);
  if (p.v.batch != p.k.batch) return Invalid("v: batch ", p.v.batch, ", k has ", p.k.batch);
  if (p.v.seqlen != p.k.seqlen) return Invalid("v: seqlen ", p.v.seqlen, ", k has ", p.k.seqlen);
  return absl::OkStatus();
}

absl::Status CheckTensors(const AttentionParams& p) {
  RETURN_IF_ERROR(CheckTensor(
      p.q, p, {"q", "seqlen_q", "num_heads", "head_dim is", p.seqlen_q, p.num_heads, p.head_dim}));
  RETURN_IF_ERROR(CheckTensor(
      p.k, p, {"k", "seqlen_k", "num_kv_heads", "q has", p.seqlen_k, p.num_kv_heads, p.head_dim}));
  RETURN_IF_ERROR(CheckTensor(p.v, p,
                              {"v", "seqlen_k", "num_kv_heads", "head_dim_v is", p.seqlen_k,
                               p.num_kv_heads, p.head_dim_v}));
  RETURN_IF_ERROR(CheckOut(p));
  RETURN_IF_ERROR(CheckTensorsAgree(p));
  return CheckExtent("lse",
                     {{{"row", p.q.seqlen, 1},
                       {"head", p.num_heads, p.lse_head_stride},
                       {"batch", p.q.batch, p.lse_batch_stride}}},
                     sizeof(float));
}

absl::Status CheckScoreSize(absl::string_view field, const Dimension& got,
                            absl::string_view expected_field, std::int64_t expected) {
  if (got.size != expected && got.size != 1) {
    return Invalid(field, ": ", got.name, " ", got.size, "; 1 or ", expected_field, " ", expected,
                   " is accepted");
  }
  if (got.size == 1 && expected != 1 && got.stride != 0) {
    return Invalid(field, ": ", got.name, " stride ", got.stride,
                   " of a broadcast dimension; 0 is accepted");
  }
  return absl::OkStatus();
}

template <typename View>
absl::Status CheckScoreView(absl::string_view field, const View& view, const AttentionParams& p,
                            std::int64_t element_bytes) {
  const bool absent = view.batch == 0 && view.heads == 0 && view.rows == 0 && view.cols == 0;
  if (absent) return absl::OkStatus();
  const Dimension rows = {"rows", view.rows, view.row_stride};
  const Dimension heads = {"heads", view.heads, view.head_stride};
  const Dimension batch = {"batch", view.batch, view.batch_stride};
  RETURN_IF_ERROR(CheckScoreSize(field, batch, "batch_size", p.batch_size));
  RETURN_IF_ERROR(CheckScoreSize(field, heads, "num_heads", p.num_heads));
  RETURN_IF_ERROR(CheckScoreSize(field, rows, "seqlen_q", p.seqlen_q));
  if (view.cols != p.seqlen_k)
    return Invalid(field, ": cols ", view.cols, ", seqlen_k is ", p.seqlen_k);
  return CheckExtent(field, {{{"cols", view.cols, 1}, rows, heads, batch}}, element_bytes);
}

absl::Status CheckBias(const AttentionParams& p) {
  RETURN_IF_ERROR(CheckDataType("bias", p.bias.dtype));
  RETURN_IF_ERROR(CheckScoreView("bias", p.bias, p, SizeOf(p.bias.dtype)));
  return p.bias.cols == 0 ? absl::OkStatus()
                          : CheckTypeOfQOrFloat32("bias", p.bias.dtype, p.q.dtype);
}

}  // namespace

absl::Status ValidateShape(const AttentionParams& p) {
  RETURN_IF_ERROR(CheckSizes(p));
  RETURN_IF_ERROR(CheckOptions(p));
  RETURN_IF_ERROR(CheckTensors(p));
  // Kernels count (batch, head, row) triples even where the sequences turn out to be empty.
  RETURN_IF_ERROR(CheckExtent("q",
                              {{{"rows", std::max<std::int64_t>(p.seqlen_q, p.q.seqlen), 0},
                                {"heads", p.num_heads, 0},
                                {"batch", p.batch_size, 0}}},
                              1));
  RETURN_IF_ERROR(CheckScoreView("mask", p.mask, p, 1));
  return CheckBias(p);
}

double AttentionFlops(const AttentionParams& p) {
  const double pairs = static_cast<double>(p.batch_size) * static_cast<double>(p.num_heads) *
                       static_cast<double>(p.seqlen_q) * static_cast<double>(p.seqlen_k);
  const double flops = 2.0 * pairs * static_cast<double>(p.head_dim + p.head_dim_v);
  return p.causal && p.seqlen_q == p.seqlen_k ? flops / 2 : flops;
}

std::int64_t CheckedMultiply(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product)) return -1;
  return product;
}

}  // namespace attnd
