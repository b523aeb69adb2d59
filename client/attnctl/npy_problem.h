// Attention problems and results as .npy files.
#pragma once

#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/attnctl/flag_set.h"
#include "client/attnctl/host_problem.h"

namespace attnd::attnctl {

struct NpyPaths {
  std::string q;
  std::string k;
  std::string v;
  std::string mask;  // empty: none
  std::string bias;
  std::string dtype;  // empty: from the files; two-byte integers and raw bytes need "bfloat16"

  void AddTo(FlagSet& flags);
  bool any() const {
    return !q.empty() || !k.empty() || !v.empty() || !mask.empty() || !bias.empty();
  }
};

// Reads the tensors and takes the sizes from their shapes: four dimensions in the layout of
// `options`, or three and cu_seqlens for packed sequences; mask (bool) and bias have four, those of
// ScoreShape. InvalidArgument where shapes or types do not go together, naming the file.
absl::StatusOr<HostProblem> LoadProblem(const NpyPaths& paths, const v1::AttentionSpec& options);

// Writes `bytes` as an array of `dtype` and `shape`. bfloat16 has no type in NumPy: it is written
// as raw pairs of bytes
// ("|V2"), which array.view(ml_dtypes.bfloat16) reads.
absl::Status SaveTensor(const std::string& path, v1::DataType dtype,
                        const std::vector<std::int64_t>& shape, std::span<const std::byte> bytes);

}  // namespace attnd::attnctl
