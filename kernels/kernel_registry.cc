#include "kernels/kernel_registry.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cpu/cpu_implementations.h"
#include "kernels/cuda/cuda_backend.h"

namespace attnd {
namespace {

constexpr std::array<const char*, 5> kAlgorithms = {"fused", "online", "two_pass", "naive",
                                                    "reference"};

// What the dispatcher tries when the caller names no algorithm, best first. "reference" is for
// checking only. Small problems get no other kernel: measured on the CPU with eight heads of 64 in
// float32 on one thread (dispatch_benchmark), fused takes 1.5 us where online takes 3.2 us for one
// row and one key, 3.6 us against 23 us for 8 x 8, 65 us against 895 us for 64 x 64. What a short
// sequence saves, it saves inside fused, which decides by that sequence's own lengths, so that the
// sequence gets the same bits whatever it is batched with.
constexpr std::array<const char*, 4> kPreference = {"fused", "online", "two_pass", "naive"};

const char* NameOf(Backend backend) { return backend == Backend::kCuda ? "cuda" : "cpu"; }

// The first implementation of `algorithm` that supports `p`; else Unimplemented with the reason the
// last one gave.
absl::StatusOr<const KernelImplementation*> FirstSupported(const AttentionParams& p,
                                                           const DeviceTraits& device,
                                                           const char* algorithm) {
  absl::Status status = absl::UnimplementedError(absl::StrCat(
      "algorithm: no implementation of \"", algorithm, "\" for ", NameOf(device.backend)));
  for (const KernelImplementation& kernel : ImplementationsFor(device.backend)) {
    if (kernel.algorithm != algorithm) continue;
    status = kernel.supports(p, device);
    if (status.ok()) return &kernel;
  }
  return status;
}

}  // namespace

absl::Span<const KernelImplementation> ImplementationsFor(Backend backend) {
  return backend == Backend::kCuda ? CudaImplementations() : cpu::Implementations();
}

absl::StatusOr<const KernelImplementation*> SelectKernel(const AttentionParams& p,
                                                         const DeviceTraits& device,
                                                         std::string_view algorithm) {
  if (!algorithm.empty()) {
    const auto known = std::find(kAlgorithms.begin(), kAlgorithms.end(), algorithm);
    if (known == kAlgorithms.end()) {
      return absl::InvalidArgumentError(absl::StrCat("algorithm: \"", std::string(algorithm),
                                                     "\"; there are ",
                                                     absl::StrJoin(kAlgorithms, ", ")));
    }
    return FirstSupported(p, device, *known);
  }
  absl::Status first_refusal;
  for (const char* candidate : kPreference) {
    absl::StatusOr<const KernelImplementation*> kernel = FirstSupported(p, device, candidate);
    if (kernel.ok()) return kernel;
    first_refusal.Update(kernel.status());
  }
  return first_refusal;
}

}  // namespace attnd
