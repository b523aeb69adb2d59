#include "server/rpc/wire_writer.h"

#include <iterator>
#include <utility>

namespace attnd {
namespace {

constexpr std::uint32_t kVarint = 0;
constexpr std::uint32_t kLengthDelimited = 2;

// Up to here a copy costs less than a slice of its own: two allocations, a reference count and an
// entry in the socket's gather list.
constexpr std::size_t kCopiedBytes = 16 << 10;

grpc::Slice SliceOver(absl::Span<const std::byte> data, const std::shared_ptr<const void>& owner) {
  auto* reference = new std::shared_ptr<const void>(owner);
  // gRPC's slices are mutable by type only; nothing writes to one that is being sent.
  return grpc::Slice(
      const_cast<std::byte*>(data.data()), data.size(),
      [](void* held) { delete static_cast<std::shared_ptr<const void>*>(held); }, reference);
}

}  // namespace

void WireWriter::AppendVarint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) tail_.push_back(static_cast<char>(value | 0x80));
  tail_.push_back(static_cast<char>(value));
}

void WireWriter::AddTag(std::uint32_t number, std::uint32_t wire_type) {
  AppendVarint(number << 3 | wire_type);
}

void WireWriter::AddVarint(std::uint32_t number, std::uint64_t value) {
  if (value == 0) return;
  AddTag(number, kVarint);
  AppendVarint(value);
}

void WireWriter::AddBytes(std::uint32_t number, absl::string_view bytes) {
  AddTag(number, kLengthDelimited);
  AppendVarint(bytes.size());
  tail_.append(bytes.data(), bytes.size());
}

void WireWriter::AddBytesView(std::uint32_t number, absl::Span<const std::byte> data,
                              const std::shared_ptr<const void>& owner) {
  if (data.empty()) return;
  if (data.size() <= kCopiedBytes) {
    AddBytes(number, {reinterpret_cast<const char*>(data.data()), data.size()});
    return;
  }
  AddTag(number, kLengthDelimited);
  AppendVarint(data.size());
  FlushTail();
  slices_.push_back(SliceOver(data, owner));
  sent_bytes_ += data.size();
}

void WireWriter::AddMessage(std::uint32_t number, WireWriter inner) {
  AddTag(number, kLengthDelimited);
  AppendVarint(inner.size());
  if (!inner.slices_.empty()) {
    FlushTail();
    slices_.insert(slices_.end(), std::make_move_iterator(inner.slices_.begin()),
                   std::make_move_iterator(inner.slices_.end()));
    sent_bytes_ += inner.sent_bytes_;
  }
  tail_.append(inner.tail_);
}

void WireWriter::FlushTail() {
  if (tail_.empty()) return;
  slices_.emplace_back(tail_.data(), tail_.size());
  sent_bytes_ += tail_.size();
  tail_.clear();
}

grpc::ByteBuffer WireWriter::TakeByteBuffer() {
  FlushTail();
  sent_bytes_ = 0;
  const std::vector<grpc::Slice> slices = std::exchange(slices_, {});
  if (slices.empty()) {
    // A ByteBuffer of no slices is not a message; one of an empty slice is the empty message.
    const grpc::Slice empty;
    return grpc::ByteBuffer(&empty, 1);
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string WireWriter::TakeString() {
  FlushTail();
  sent_bytes_ = 0;
  std::string text;
  for (const grpc::Slice& slice : std::exchange(slices_, {})) {
    text.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return text;
}

}  // namespace attnd
