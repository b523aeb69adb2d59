// A finished job whose results gRPC is sending.
#pragma once

#include <memory>

#include "server/engine/engine.h"
#include "server/rpc/byte_ledger.h"

namespace attnd {

// Shares `job` among the slices that refer to it. Its output bytes are counted in `ledger` until
// the last of them is gone.
std::shared_ptr<const AttentionJob> ShareForSending(std::unique_ptr<AttentionJob> job,
                                                    ByteLedger* ledger);

}  // namespace attnd
