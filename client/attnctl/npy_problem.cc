#include "client/attnctl/npy_problem.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/attnctl/element_types.h"
#include "client/attnctl/npy.h"

namespace attnd::attnctl {
namespace {

absl::Status Misfit(absl::string_view path, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

std::string ShapeText(const NpyArray& array) {
  return absl::StrCat("(", absl::StrJoin(array.shape, ", "), ")");
}

// The element type of a file. A file of two-byte integers or raw bytes is bfloat16 if `bfloat16`
// says so.
absl::StatusOr<v1::DataType> TypeOf(const NpyArray& array, bool bfloat16) {
  if (array.descr == "<f4") return v1::DATA_TYPE_FLOAT32;
  if (array.descr == "<f2") return v1::DATA_TYPE_FLOAT16;
  if (array.descr == "<u2" || array.descr == "|V2" || array.descr == "<V2") {
    if (bfloat16) return v1::DATA_TYPE_BFLOAT16;
    return absl::InvalidArgumentError(
        absl::StrCat("type ", array.descr, " needs --dtype bfloat16"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("type ", array.descr, " is not <f4, <f2, or <u2 or |V2 for bfloat16"));
}

// Batch, sequence, head and width of a tensor's shape.
struct Dimensions {
  std::int64_t batch, seqlen, heads, dim;
};

absl::StatusOr<Dimensions> DimensionsOf(const NpyArray& array, const v1::AttentionSpec& options) {
  const std::vector<std::int64_t>& shape = array.shape;
  if (!options.cu_seqlens_q().empty()) {
    if (shape.size() == 3) return Dimensions{1, shape[0], shape[1], shape[2]};
    return absl::InvalidArgumentError(absl::StrCat(
        "shape ", ShapeText(array), ", packed sequences are [total, heads, head_dim]"));
  }
  if (shape.size() != 4) {
    return absl::InvalidArgumentError(absl::StrCat(
        "shape ", ShapeText(array),
        ", four dimensions accepted, or three with --cu-seqlens-q and --cu-seqlens-k"));
  }
  if (options.layout() == v1::TENSOR_LAYOUT_BHSD) {
    return Dimensions{shape[0], shape[2], shape[1], shape[3]};
  }
  return Dimensions{shape[0], shape[1], shape[2], shape[3]};
}

class ProblemLoader {
 public:
  ProblemLoader(const NpyPaths& paths, const v1::AttentionSpec& options) : paths_(paths) {
    problem_.spec = options;
  }

  absl::StatusOr<HostProblem> Load() {
    absl::Status status = LoadQ();
    if (status.ok()) status = LoadKv(paths_.k, problem_.k, k_);
    if (status.ok()) status = LoadKv(paths_.v, problem_.v, v_);
    if (status.ok()) status = SetSizes();
    if (status.ok() && !paths_.mask.empty()) status = LoadMask();
    if (status.ok() && !paths_.bias.empty()) status = LoadBias();
    if (!status.ok()) return status;
    return std::move(problem_);
  }

 private:
  // Reads a tensor and its type and dimensions.
  absl::Status LoadTensor(const std::string& path, std::vector<std::byte>& bytes,
                          v1::DataType& dtype, Dimensions& dimensions) {
    absl::StatusOr<NpyArray> array = ReadNpy(path);
    if (!array.ok()) return array.status();
    const auto type = TypeOf(*array, wants_bfloat16_);
    if (!type.ok()) return Misfit(path, type.status().message());
    const auto found = DimensionsOf(*array, problem_.spec);
    if (!found.ok()) return Misfit(path, found.status().message());
    dtype = *type;
    dimensions = *found;
    bytes = std::move(array->data);
    return absl::OkStatus();
  }

  absl::Status LoadQ() {
    if (!paths_.dtype.empty()) {
      const auto wanted = DataTypeFromName(paths_.dtype);
      if (!wanted.ok()) return Misfit("--dtype", wanted.status().message());
      wants_bfloat16_ = *wanted == v1::DATA_TYPE_BFLOAT16;
      wanted_ = *wanted;
    }
    v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
    absl::Status status = LoadTensor(paths_.q, problem_.q, dtype, q_);
    if (!status.ok()) return status;
    if (wanted_ != v1::DATA_TYPE_UNSPECIFIED && dtype != wanted_) {
      return Misfit(paths_.q, absl::StrCat("the file is ", NameOf(dtype), ", --dtype says ",
                                           NameOf(wanted_)));
    }
    problem_.spec.set_dtype(dtype);
    return absl::OkStatus();
  }

  absl::Status LoadKv(const std::string& path, std::vector<std::byte>& bytes,
                      Dimensions& dimensions) {
    v1::DataType dtype = v1::DATA_TYPE_UNSPECIFIED;
    absl::Status status = LoadTensor(path, bytes, dtype, dimensions);
    if (!status.ok()) return status;
    if (dtype == problem_.spec.dtype()) return absl::OkStatus();
    return Misfit(path, absl::StrCat("the file is ", NameOf(dtype), ", q is ",
                                     NameOf(problem_.spec.dtype())));
  }

  absl::Status SetSizes() {
    if (k_.batch != q_.batch || v_.batch != q_.batch) {
      return Misfit(paths_.k, absl::StrCat("batch ", k_.batch, " and ", v_.batch, " in ", paths_.v,
                                           ", q has ", q_.batch));
    }
    if (v_.seqlen != k_.seqlen || v_.heads != k_.heads) {
      return Misfit(paths_.v, absl::StrCat(v_.seqlen, " keys and ", v_.heads, " heads, k has ",
                                           k_.seqlen, " and ", k_.heads));
    }
    if (k_.dim != q_.dim) {
      return Misfit(paths_.k, absl::StrCat("head_dim ", k_.dim, ", q has ", q_.dim));
    }
    v1::AttentionSpec& spec = problem_.spec;
    const bool packed = !spec.cu_seqlens_q().empty();
    spec.set_batch_size(packed ? spec.cu_seqlens_q_size() - 1 : q_.batch);
    spec.set_seqlen_q(packed ? 0 : q_.seqlen);
    spec.set_seqlen_k(packed ? 0 : k_.seqlen);
    spec.set_num_heads(q_.heads);
    spec.set_num_kv_heads(k_.heads);
    spec.set_head_dim(q_.dim);
    spec.set_head_dim_v(v_.dim);
    return absl::OkStatus();
  }

  static absl::Status SetShape(const std::string& path, const NpyArray& array,
                               v1::ScoreShape& shape) {
    if (array.shape.size() != 4) {
      return Misfit(path,
                    absl::StrCat("shape ", ShapeText(array),
                                 ", [batch or 1, heads or 1, seqlen_q or 1, seqlen_k] accepted"));
    }
    shape.set_batch(array.shape[0]);
    shape.set_heads(array.shape[1]);
    shape.set_rows(array.shape[2]);
    shape.set_cols(array.shape[3]);
    return absl::OkStatus();
  }

  absl::Status LoadMask() {
    absl::StatusOr<NpyArray> array = ReadNpy(paths_.mask);
    if (!array.ok()) return array.status();
    if (array->descr != "|b1") {
      return Misfit(paths_.mask, absl::StrCat("type ", array->descr, ", |b1 (bool) accepted"));
    }
    problem_.mask = std::move(array->data);
    return SetShape(paths_.mask, *array, *problem_.spec.mutable_mask_shape());
  }

  absl::Status LoadBias() {
    absl::StatusOr<NpyArray> array = ReadNpy(paths_.bias);
    if (!array.ok()) return array.status();
    const auto type = TypeOf(*array, wants_bfloat16_);
    if (!type.ok()) return Misfit(paths_.bias, type.status().message());
    problem_.spec.set_bias_dtype(*type);
    problem_.bias = std::move(array->data);
    return SetShape(paths_.bias, *array, *problem_.spec.mutable_bias_shape());
  }

  const NpyPaths& paths_;
  HostProblem problem_;
  v1::DataType wanted_ = v1::DATA_TYPE_UNSPECIFIED;
  bool wants_bfloat16_ = false;
  Dimensions q_{}, k_{}, v_{};
};

}  // namespace

void NpyPaths::AddTo(FlagSet& flags) {
  flags.Add("q", "FILE", "queries, .npy [batch, seqlen_q, heads, head_dim]", &q);
  flags.Add("k", "FILE", "keys, .npy [batch, seqlen_k, kv_heads, head_dim]", &k);
  flags.Add("v", "FILE", "values, .npy [batch, seqlen_k, kv_heads, head_dim_v]", &v);
  flags.Add("mask", "FILE", "bool .npy [batch|1, heads|1, seqlen_q|1, seqlen_k]", &mask);
  flags.Add("bias", "FILE", "the same shapes, added to scores", &bias);
  flags.Add("dtype", "TYPE", "bfloat16 where the files hold its bits (default: theirs)", &dtype);
}

absl::StatusOr<HostProblem> LoadProblem(const NpyPaths& paths, const v1::AttentionSpec& options) {
  return ProblemLoader(paths, options).Load();
}

absl::Status SaveTensor(const std::string& path, v1::DataType dtype,
                        const std::vector<std::int64_t>& shape, std::span<const std::byte> bytes) {
  switch (dtype) {
    case v1::DATA_TYPE_FLOAT16:
      return WriteNpy(path, "<f2", shape, bytes);
    case v1::DATA_TYPE_BFLOAT16:
      return WriteNpy(path, "|V2", shape, bytes);
    default:
      return WriteNpy(path, "<f4", shape, bytes);
  }
}

}  // namespace attnd::attnctl
