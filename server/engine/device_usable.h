// What a device that is lost says to those for whom nothing has been done yet.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "server/device/device.h"

namespace attnd {

// OK, or Unavailable with the error that made the device unusable: the request can be tried
// elsewhere.
inline absl::Status CheckDeviceUsable(const Device& device) {
  const absl::Status health = device.health();
  if (health.ok()) return health;
  return absl::UnavailableError(absl::StrCat("the device has failed: ", health.message()));
}

}  // namespace attnd
