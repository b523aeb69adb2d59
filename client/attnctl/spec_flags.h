// The options of an attention problem as flags.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/attnctl/flag_set.h"

namespace attnd::attnctl {

// Everything but sizes and tensors.
struct OptionFlags {
  std::string out_dtype;
  std::string layout = "bshd";
  std::string algorithm;
  bool causal = false;
  std::optional<float> scale;
  float softcap = 0;
  std::optional<std::int64_t> window_left;
  std::optional<std::int64_t> window_right;
  std::vector<std::int64_t> lengths_q;
  std::vector<std::int64_t> lengths_k;
  std::vector<std::int64_t> cu_seqlens_q;
  std::vector<std::int64_t> cu_seqlens_k;
  std::vector<float> alibi_slopes;
  std::vector<float> sinks;

  void AddTo(FlagSet& flags);
  // A spec without sizes. InvalidArgument for unknown names.
  absl::StatusOr<v1::AttentionSpec> ToSpec() const;
};

// Sizes, for commands that make tensors themselves.
struct SizeFlags {
  std::int64_t batch_size = 1;
  std::int64_t seqlen_q = 1024;
  std::optional<std::int64_t> seqlen_k;  // absent: seqlen_q
  std::int64_t num_heads = 8;
  std::int64_t num_kv_heads = 0;
  std::int64_t head_dim = 64;
  std::int64_t head_dim_v = 0;
  std::string dtype = "float32";

  void AddTo(FlagSet& flags);
  // Sets the sizes of `spec`. InvalidArgument for an unknown dtype, or sizes that make no sense or
  // more than 16 GiB.
  absl::Status ApplyTo(v1::AttentionSpec& spec) const;
};

// "naive", "two_pass", "online", "fused", "reference"; empty: the server chooses.
absl::StatusOr<v1::Algorithm> AlgorithmFromName(absl::string_view name);
std::string NameOf(v1::Algorithm algorithm);

}  // namespace attnd::attnctl
