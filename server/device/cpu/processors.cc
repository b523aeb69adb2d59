#include <sched.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <thread>

#include "server/device/cpu/thread_pool.h"

namespace attnd {
namespace {

int ProcessorsInAffinityMask() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (sched_getaffinity(0, sizeof(mask), &mask) == 0) return CPU_COUNT(&mask);
  return static_cast<int>(std::thread::hardware_concurrency());
}

// Processors that the control group's quota pays for (cgroup v2: "quota period" or "max period"),
// rounded up; a container of a Kubernetes pod sees its own limit here. 0: no limit.
int ProcessorsInQuota() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  return static_cast<int>(std::ceil(std::strtod(quota.c_str(), nullptr) / period));
}

}  // namespace

int UsableProcessors() {
  int processors = ProcessorsInAffinityMask();
  if (const int quota = ProcessorsInQuota(); quota > 0) processors = std::min(processors, quota);
  return std::max(processors, 1);
}

}  // namespace attnd
