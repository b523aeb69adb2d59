#include "client/attnctl/spec_flags.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/attnctl/element_types.h"

namespace attnd::attnctl {
namespace {

constexpr absl::string_view kAlgorithmPrefix = "ALGORITHM_";

absl::StatusOr<v1::TensorLayout> LayoutFromName(absl::string_view name) {
  if (name == "bshd") return v1::TENSOR_LAYOUT_BSHD;
  if (name == "bhsd") return v1::TENSOR_LAYOUT_BHSD;
  return absl::InvalidArgumentError(absl::StrCat("\"", name, "\" is not bshd or bhsd"));
}

absl::Status InFlag(absl::string_view flag, const absl::Status& status) {
  return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", status.message()));
}

template <typename From, typename To>
void CopyList(const From& from, To* to) {
  to->Add(from.begin(), from.end());
}

}  // namespace

absl::StatusOr<v1::Algorithm> AlgorithmFromName(absl::string_view name) {
  if (name.empty()) return v1::ALGORITHM_UNSPECIFIED;
  v1::Algorithm algorithm = v1::ALGORITHM_UNSPECIFIED;
  const std::string full_name = absl::StrCat(kAlgorithmPrefix, absl::AsciiStrToUpper(name));
  if (v1::Algorithm_Parse(full_name, &algorithm)) return algorithm;
  return absl::InvalidArgumentError(
      absl::StrCat("\"", name, "\" is not naive, two_pass, online, fused or reference"));
}

std::string NameOf(v1::Algorithm algorithm) {
  const std::string& name = v1::Algorithm_Name(algorithm);
  return absl::AsciiStrToLower(absl::StripPrefix(name, kAlgorithmPrefix));
}

void OptionFlags::AddTo(FlagSet& flags) {
  flags.Add("out-dtype", "TYPE", "type of out (default: the inputs')", &out_dtype);
  flags.Add("layout", "ORDER", "bshd or bhsd (default bshd)", &layout);
  flags.Add("algorithm", "NAME", "naive, two_pass, online, fused, reference (default: server's)",
            &algorithm);
  flags.Add("causal", "", "row i sees key j <= i + seqlen_k - seqlen_q", &causal);
  flags.Add("scale", "X", "factor on q.k (default 1/sqrt(head_dim))", &scale);
  flags.Add("softcap", "X", "tanh limit of scores (default 0: off)", &softcap);
  flags.Add("window-left", "N", "keys to the left that a row sees (default all)", &window_left);
  flags.Add("window-right", "N", "keys to the right that a row sees (default all)", &window_right);
  flags.Add("lengths-q", "N,N,...", "rows in use of each sequence", &lengths_q);
  flags.Add("lengths-k", "N,N,...", "keys in use of each sequence", &lengths_k);
  flags.Add("cu-seqlens-q", "0,N,...", "where packed sequences begin in q", &cu_seqlens_q);
  flags.Add("cu-seqlens-k", "0,N,...", "where packed sequences begin in k and v", &cu_seqlens_k);
  flags.Add("alibi-slopes", "X,X,...", "ALiBi slope of each head", &alibi_slopes);
  flags.Add("sinks", "X,X,...", "attention sink of each head", &sinks);
}

absl::StatusOr<v1::AttentionSpec> OptionFlags::ToSpec() const {
  v1::AttentionSpec spec;
  if (!out_dtype.empty()) {
    const auto dtype = DataTypeFromName(out_dtype);
    if (!dtype.ok()) return InFlag("out-dtype", dtype.status());
    spec.set_out_dtype(*dtype);
  }
  const auto order = LayoutFromName(layout);
  if (!order.ok()) return InFlag("layout", order.status());
  spec.set_layout(*order);
  const auto kind = AlgorithmFromName(algorithm);
  if (!kind.ok()) return InFlag("algorithm", kind.status());
  spec.set_algorithm(*kind);
  spec.set_causal(causal);
  if (scale.has_value()) spec.set_softmax_scale(*scale);
  spec.set_softcap(softcap);
  if (window_left.has_value()) spec.set_window_left(*window_left);
  if (window_right.has_value()) spec.set_window_right(*window_right);
  CopyList(lengths_q, spec.mutable_lengths_q());
  CopyList(lengths_k, spec.mutable_lengths_k());
  CopyList(cu_seqlens_q, spec.mutable_cu_seqlens_q());
  CopyList(cu_seqlens_k, spec.mutable_cu_seqlens_k());
  CopyList(alibi_slopes, spec.mutable_alibi_slopes());
  CopyList(sinks, spec.mutable_sinks());
  return spec;
}

void SizeFlags::AddTo(FlagSet& flags) {
  flags.Add("batch", "N", "sequences (default 1)", &batch_size);
  flags.Add("seqlen-q", "N", "query rows of a sequence (default 1024)", &seqlen_q);
  flags.Add("seqlen-k", "N", "keys of a sequence (default: seqlen-q)", &seqlen_k);
  flags.Add("heads", "N", "query heads (default 8)", &num_heads);
  flags.Add("kv-heads", "N", "key/value heads (default: heads)", &num_kv_heads);
  flags.Add("head-dim", "N", "width of q and k (default 64)", &head_dim);
  flags.Add("head-dim-v", "N", "width of v and out (default: head-dim)", &head_dim_v);
  flags.Add("dtype", "TYPE", "float32, float16 or bfloat16 (default float32)", &dtype);
}

absl::Status SizeFlags::ApplyTo(v1::AttentionSpec& spec) const {
  const auto type = DataTypeFromName(dtype);
  if (!type.ok()) return InFlag("dtype", type.status());
  spec.set_dtype(*type);
  spec.set_batch_size(batch_size);
  spec.set_seqlen_q(seqlen_q);
  spec.set_seqlen_k(seqlen_k.value_or(seqlen_q));
  spec.set_num_heads(num_heads);
  spec.set_num_kv_heads(num_kv_heads);
  spec.set_head_dim(head_dim);
  spec.set_head_dim_v(head_dim_v);
  // Bounds that keep the products of sizes far from overflow; what else a server accepts is the
  // server's to say.
  for (const std::int64_t size :
       {batch_size, seqlen_q, spec.seqlen_k(), num_heads, num_kv_heads, head_dim, head_dim_v}) {
    if (size < 0 || size > (1 << 30)) {
      return absl::InvalidArgumentError(absl::StrCat("size ", size, " is not within 0 and 2^30"));
    }
  }
  const double elements =
      static_cast<double>(batch_size) * static_cast<double>(seqlen_q + spec.seqlen_k()) *
      static_cast<double>(num_heads) * static_cast<double>(head_dim + head_dim_v);
  if (elements > 0x1p32) return absl::InvalidArgumentError("the tensors would take over 16 GiB");
  return absl::OkStatus();
}

}  // namespace attnd::attnctl
