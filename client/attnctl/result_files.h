// The files that the tensors of a result go to.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "attnd/client.h"
#include "client/attnctl/flag_set.h"

namespace attnd::attnctl {

// Empty: nowhere.
struct ResultPaths {
  std::string out;
  std::string lse;
  std::string probs;

  void AddTo(FlagSet& flags);
};

// InvalidArgument where two of them name one file, however they spell it.
absl::Status CheckDistinct(const ResultPaths& paths);

// Writes nothing. The code of the system's error, with its words, where a file could not be opened
// for writing: what is found before the call costs no computation and leaves no result in part.
absl::Status CheckWritable(const ResultPaths& paths);

// Writes each tensor that has a path. An error, as of WriteNpy, says what has been written.
absl::Status SaveResult(const ResultPaths& paths, const v1::AttentionSpec& spec,
                        const AttendReply& reply);

}  // namespace attnd::attnctl
