#include "tests/testing/arena.h"

#include <algorithm>
#include <new>

namespace attnd::testing {
namespace {

constexpr std::int64_t kAlignment = 256;
constexpr std::int64_t kGuardBytes = 256;

}  // namespace

std::int64_t Arena::Reserve(std::int64_t size_bytes) {
  if (size_bytes_ == 0) size_bytes_ = kGuardBytes;
  const std::int64_t offset = size_bytes_;
  size_bytes_ = (offset + size_bytes + kGuardBytes + kAlignment - 1) / kAlignment * kAlignment;
  return offset;
}

void Arena::Allocate() {
  data_.reset(static_cast<std::byte*>(
      ::operator new[](static_cast<std::size_t>(size_bytes_), std::align_val_t{kAlignment})));
  Poison();
}

void Arena::Poison() { std::fill_n(data_.get(), size_bytes_, kPoison); }

void Arena::Free::operator()(std::byte* memory) const {
  ::operator delete[](memory, std::align_val_t{kAlignment});
}

}  // namespace attnd::testing
