// What GetServerInfo answers.
#pragma once

#include "attnd/v1/attention.pb.h"
#include "server/device/device.h"
#include "server/rpc/rpc_options.h"

namespace attnd {

v1::GetServerInfoResponse MakeServerInfo(const DeviceInfo& device, const RpcOptions& options);

}  // namespace attnd
