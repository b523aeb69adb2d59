// What the process's exit code says. Supervisors and scripts rely on these numbers.
#pragma once

namespace attnd {

enum class ExitCode : int {
  kOk = 0,       // stopped as asked; every call in flight had finished
  kFailure = 1,  // could not start or go on: a port that is taken, a file that cannot be written
  kUsage = 2,    // flags or configuration are not in order, or ask for more than the machine has
  // The device asked for cannot be used, or failed for good, or the system refuses memory or
  // threads just now; a restart may help.
  kDeviceUnusable = 3,
  kDrainCutShort = 4,  // calls were still in flight at the drain timeout or at the second signal
};

}  // namespace attnd
