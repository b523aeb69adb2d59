#pragma once

namespace attnd {

// Sends what the gRPC library logs through this server's log: its errors, which mostly are a peer's
// doing, as warnings.
void RouteGrpcLog();

}  // namespace attnd
