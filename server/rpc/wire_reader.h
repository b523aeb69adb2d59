// Reads the top level of a Protocol Buffers message straight from network slices, so that the bytes
// of tensors can be copied once, to where they are needed, and never pass through a protobuf
// string.
//
// Wire format: https://protobuf.dev/programming-guides/encoding. Input is taken to be hostile:
// every length is checked against what is left before it is used.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/rpc/wire_bytes.h"

namespace attnd {

enum class WireType : std::uint8_t {
  kVarint = 0,
  kFixed64 = 1,
  kLengthDelimited = 2,
  kFixed32 = 5
};

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t value = 0;  // of a varint or fixed field
  WireBytesView bytes;      // of a length-delimited field
};

// Walks the fields of one message in the order in which they were sent.
class WireReader {
 public:
  explicit WireReader(WireBytesView message) : rest_(message), size_(message.size()) {}

  // Reads the next field into *field and returns true; false at the end of the message.
  // InvalidArgument, naming the byte where it happened, for what is not a message: a length beyond
  // the end, a varint of more than 64 bits, field number 0, a group (deprecated, and unused in
  // attnd.v1) or an unknown wire type.
  absl::StatusOr<bool> Next(WireField* field);

 private:
  absl::StatusOr<std::uint64_t> ReadVarint();
  absl::StatusOr<std::uint64_t> ReadFixed(int num_bytes);
  absl::Status ReadValue(WireField* field);
  absl::Status Malformed(const char* what) const;

  WireBytesView rest_;
  std::size_t size_;
};

// A received message and the slices that hold it, which go back to gRPC when this is destroyed.
class ReceivedMessage {
 public:
  ReceivedMessage() = default;
  // Takes the bytes out of `buffer`. Cancelled if there is no message in it: gRPC hands out such a
  // buffer for a unary call whose caller went before sending. Internal if gRPC cannot give the
  // bytes.
  static absl::StatusOr<ReceivedMessage> Take(grpc::ByteBuffer* buffer);

  WireBytesView bytes() const { return WireBytesView(slices_); }

 private:
  std::vector<grpc::Slice> slices_;
};

// InvalidArgument unless `field` has the wire type that its declaration has.
absl::Status ExpectWireType(const WireField& field, WireType type, const char* name);

}  // namespace attnd
