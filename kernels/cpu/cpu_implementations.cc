#include "kernels/cpu/cpu_implementations.h"

#include <array>

#include "kernels/reference/online.h"

namespace attnd::cpu {

absl::Span<const KernelImplementation> Implementations() {
  static const std::array kImplementations = {OnlineImplementation()};
  return kImplementations;
}

}  // namespace attnd::cpu
