// Encodes Protocol Buffers messages into gRPC slices: small fields are copied, tensors are referred
// to where they lie.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

namespace attnd {

// Fields appear on the wire in the order in which they are added. Defaults (0, no bytes) are left
// out, as in proto3.
class WireWriter {
 public:
  void AddVarint(std::uint32_t number, std::uint64_t value);
  // A string, bytes or serialised message field; copied. Written even if empty, since an empty
  // submessage is not absent.
  void AddBytes(std::uint32_t number, absl::string_view bytes);
  // A bytes field that is not copied, unless it is so small that copying is cheaper. `owner` keeps
  // `data` alive and unchanged until gRPC has dropped the slice, which may be after the call has
  // ended and on any thread.
  void AddBytesView(std::uint32_t number, absl::Span<const std::byte> data,
                    const std::shared_ptr<const void>& owner);
  // A submessage made of the fields of `inner`.
  void AddMessage(std::uint32_t number, WireWriter inner);

  // Bytes written so far.
  std::size_t size() const { return sent_bytes_ + tail_.size(); }

  // The message. The writer is empty afterwards.
  grpc::ByteBuffer TakeByteBuffer();
  // The same in one string.
  std::string TakeString();

 private:
  void AddTag(std::uint32_t number, std::uint32_t wire_type);
  void AppendVarint(std::uint64_t value);
  void FlushTail();

  std::vector<grpc::Slice> slices_;
  std::size_t sent_bytes_ = 0;  // in slices_
  std::string tail_;            // what comes after slices_
};

}  // namespace attnd
