#include "server/rpc/wire_bytes.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace attnd {

WireBytesView::WireBytesView(absl::Span<const grpc::Slice> slices) : slices_(slices) {
  for (const grpc::Slice& slice : slices) size_ += slice.size();
  RemovePrefix(0);
}

absl::Span<const std::uint8_t> WireBytesView::front() const {
  if (size_ == 0) return {};
  const grpc::Slice& first = slices_.front();
  return {first.begin() + skip_, std::min(first.size() - skip_, size_)};
}

void WireBytesView::RemovePrefix(std::size_t count) {
  assert(count <= size_);
  size_ -= count;
  skip_ += count;
  // Empty slices are passed over too, so that front() is never empty before the end.
  while (!slices_.empty() && skip_ >= slices_.front().size()) {
    skip_ -= slices_.front().size();
    slices_.remove_prefix(1);
  }
}

WireBytesView WireBytesView::Prefix(std::size_t count) const {
  assert(count <= size_);
  WireBytesView prefix = *this;
  prefix.size_ = count;
  return prefix;
}

void WireBytesView::CopyTo(std::byte* destination) const {
  for (WireBytesView rest = *this; !rest.empty();) {
    const absl::Span<const std::uint8_t> piece = rest.front();
    std::memcpy(destination, piece.data(), piece.size());
    destination += piece.size();
    rest.RemovePrefix(piece.size());
  }
}

std::string WireBytesView::ToString() const {
  std::string text(size_, '\0');
  CopyTo(reinterpret_cast<std::byte*>(text.data()));
  return text;
}

}  // namespace attnd
