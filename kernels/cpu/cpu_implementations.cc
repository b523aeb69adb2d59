#include "kernels/cpu/cpu_implementations.h"

#include <array>

#include "kernels/cpu/fused_attention.h"
#include "kernels/reference/attention_fp64.h"
#include "kernels/reference/naive.h"
#include "kernels/reference/online.h"
#include "kernels/reference/two_pass.h"

namespace attnd::cpu {

absl::Span<const KernelImplementation> Implementations() {
  static const std::array kImplementations = {FusedImplementation(), OnlineImplementation(),
                                              TwoPassImplementation(), NaiveImplementation(),
                                              ReferenceImplementation()};
  return kImplementations;
}

}  // namespace attnd::cpu
