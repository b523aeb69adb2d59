// One block of host memory that holds all the tensors of a problem, poisoned wherever no tensor
// says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace attnd::testing {

// Reserve everything first, then Allocate. Every reservation begins at a multiple of 256 bytes and
// is followed by at least 256 bytes of guard. All bytes start as kPoison, which is NaN in every
// float type and "may attend" in a mask.
class Arena {
 public:
  static constexpr std::byte kPoison{0xff};

  // Returns the offset of `size_bytes` bytes.
  std::int64_t Reserve(std::int64_t size_bytes);
  void Allocate();
  void Poison();

  std::byte* data() { return data_.get(); }
  const std::byte* data() const { return data_.get(); }
  std::int64_t size_bytes() const { return size_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const;
  };
  std::int64_t size_bytes_ = 0;
  std::unique_ptr<std::byte[], Free> data_;
};

}  // namespace attnd::testing
