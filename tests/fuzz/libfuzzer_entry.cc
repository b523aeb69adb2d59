// libFuzzer's entry to the target that the build names.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  attnd::fuzz::ATTND_FUZZ_TARGET(data, size);
  return 0;
}
