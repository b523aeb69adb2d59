#include "server/rpc/server_info.h"

#include <string>

#include "kernels/kernel_registry.h"
#include "server/rpc/proto_enums.h"

namespace attnd {

v1::GetServerInfoResponse MakeServerInfo(const DeviceInfo& device, const RpcOptions& options) {
  v1::GetServerInfoResponse info;
  info.set_version(options.version);
  info.set_backend(device.traits.backend == Backend::kCuda ? "cuda" : "cpu");
  info.set_device_name(device.name);
  info.set_compute_capability(device.traits.compute_capability);
  info.set_device_memory_bytes(device.device_memory_bytes);
  info.set_staging_memory_bytes(device.staging_memory_bytes);
  info.set_max_message_bytes(options.max_message_bytes);
  info.set_max_probs_bytes(options.limits.max_probs_bytes);
  info.set_stream_chunk_bytes(options.stream_chunk_bytes);
  for (const KernelImplementation& implementation : ImplementationsFor(device.traits.backend)) {
    v1::KernelInfo& kernel = *info.add_kernels();
    kernel.set_name(std::string(implementation.name));
    kernel.set_algorithm(AlgorithmToProto(std::string(implementation.algorithm)));
  }
  return info;
}

}  // namespace attnd
