// What an implementation that never holds a row's final weights answers when they are asked for.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/attention_params.h"

namespace attnd::cpu {

// Unimplemented if `p` asks for probs, which `algorithm` does not have.
inline absl::Status CheckWithoutProbs(const AttentionParams& p, absl::string_view algorithm) {
  if (p.probs == nullptr) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("return_probs: algorithm ", algorithm,
                   " does not have them, accepted: naive, two_pass, reference; or not set"));
}

}  // namespace attnd::cpu
