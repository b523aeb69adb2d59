// The problems that `attnctl verify` tries a server with.
#pragma once

#include <string>
#include <vector>

#include "attnd/v1/attention.pb.h"

namespace attnd::attnctl {

struct VerifyCase {
  std::string name;
  v1::AttentionSpec spec;  // of dtype float32, returning lse
};

// Every option and edge once: lengths about a tile, empty sequences, more queries than keys, head
// ratios, masks.
std::vector<VerifyCase> VerifyCases();

}  // namespace attnd::attnctl
