#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "server/device/device.h"
#include "server/server_options.h"

namespace attnd {

// The device that options.backend asks for. kAuto falls back to the CPU, and logs why, where the
// build has no CUDA or the machine no usable device; any other trouble with a device that is there
// is an error, as it is for kCuda. InvalidArgument, naming the setting, its value and what is
// accepted, where this machine can never give what one asks for.
absl::StatusOr<std::unique_ptr<Device>> OpenDevice(const ServerOptions& options);

}  // namespace attnd
