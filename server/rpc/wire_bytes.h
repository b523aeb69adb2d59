// A run of bytes of a received message, where it lies: in the network slices that gRPC handed over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "grpcpp/support/slice.h"

namespace attnd {

// Refers to `size` bytes that begin `skip` bytes into the first of `slices` and run through as many
// of them as it takes. Does not own: the slices must outlive it. Cheap to copy.
class WireBytesView {
 public:
  WireBytesView() = default;
  // All bytes of `slices`.
  explicit WireBytesView(absl::Span<const grpc::Slice> slices);

  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

  // The first of the contiguous pieces that make up these bytes; empty only if the view is.
  absl::Span<const std::uint8_t> front() const;
  // Drops the first `count` bytes, at most size().
  void RemovePrefix(std::size_t count);
  // The first `count` bytes, at most size().
  WireBytesView Prefix(std::size_t count) const;

  // Copies all bytes to `destination`, which has room for size().
  void CopyTo(std::byte* destination) const;
  std::string ToString() const;

 private:
  absl::Span<const grpc::Slice> slices_;
  std::size_t skip_ = 0;
  std::size_t size_ = 0;
};

}  // namespace attnd
