// The same problem computed in this process, through the C library of kernels.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "client/attnctl/host_problem.h"

namespace attnd::attnctl {

struct LocalResult {
  std::vector<float> out;  // widened from `out_dtype`
  std::vector<float> lse;
  std::vector<float> probs;  // empty unless asked for
};

struct LocalOptions {
  const char* algorithm = "reference";  // float64; or "naive", "two_pass", "online", "fused"
  v1::DataType out_dtype = v1::DATA_TYPE_FLOAT32;
  bool probs = false;
};

// Computes `problem` on this machine's processors, on as many threads. Layouts as in
// AttendResponse. Errors are those of the library, with its text.
absl::StatusOr<LocalResult> ComputeLocally(const HostProblem& problem, const LocalOptions& options);

}  // namespace attnd::attnctl
