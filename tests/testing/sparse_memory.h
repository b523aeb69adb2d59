// Address space without memory behind it until it is written, for tests of huge strides.
#pragma once

#include <sys/mman.h>

#include <cstddef>

namespace attnd::testing {

// Zeros. Owns the mapping; data() is nullptr where the system refuses one of that size.
class SparseMemory {
 public:
  explicit SparseMemory(std::size_t size_bytes) : size_bytes_(size_bytes) {
    void* memory = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
  }
  SparseMemory(const SparseMemory&) = delete;
  SparseMemory& operator=(const SparseMemory&) = delete;
  ~SparseMemory() {
    if (data_ != nullptr) munmap(data_, size_bytes_);
  }

  std::byte* data() const { return data_; }

 private:
  std::size_t size_bytes_;
  std::byte* data_;
};

}  // namespace attnd::testing
