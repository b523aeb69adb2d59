// The bytes of a result tensor, in memory of its own or in memory that the caller lent for it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace attnd {

// Move-only. Memory of its own is aligned for any element type; lent memory is as aligned as the
// caller made it.
class TensorBytes {
 public:
  TensorBytes() = default;

  // `size` bytes that this object owns, not initialised.
  static TensorBytes Allocate(std::size_t size) {
    TensorBytes tensor;
    tensor.owned_ = std::make_unique_for_overwrite<std::byte[]>(size);
    tensor.bytes_ = {tensor.owned_.get(), size};
    return tensor;
  }

  // Refers to `bytes`, which must outlive this object.
  static TensorBytes Borrow(std::span<std::byte> bytes) {
    TensorBytes tensor;
    tensor.bytes_ = bytes;
    return tensor;
  }

  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }

  // The same bytes as elements; a last partial element is left out. T is an arithmetic type of the
  // tensor's width: float for float32, std::uint16_t for the bits of float16 and bfloat16.
  template <typename T>
  std::span<const T> As() const {
    return {reinterpret_cast<const T*>(bytes_.data()), bytes_.size() / sizeof(T)};
  }

 private:
  std::unique_ptr<std::byte[]> owned_;
  std::span<std::byte> bytes_;
};

}  // namespace attnd
