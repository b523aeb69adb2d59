#include "server/rpc/wire_reader.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"
#include "server/rpc/error_details.h"

namespace attnd {
namespace {

constexpr int kMaxVarintBytes = 10;
constexpr std::uint64_t kMaxFieldNumber = (1u << 29) - 1;

const char* NameOf(WireType type) {
  switch (type) {
    case WireType::kVarint:
      return "varint";
    case WireType::kFixed64:
      return "fixed64";
    case WireType::kLengthDelimited:
      return "length-delimited";
    case WireType::kFixed32:
      return "fixed32";
  }
  return "unknown";
}

}  // namespace

absl::Status WireReader::Malformed(const char* what) const {
  return FieldError("request", absl::StrCat("is not a protobuf message: ", what, " at byte ",
                                            size_ - rest_.size(), " of ", size_));
}

absl::StatusOr<std::uint64_t> WireReader::ReadVarint() {
  std::uint64_t value = 0;
  for (int i = 0; i < kMaxVarintBytes; ++i) {
    if (rest_.empty()) return Malformed("a varint is cut off");
    const std::uint8_t byte = rest_.front().front();
    // The tenth byte holds bit 63 alone.
    if (i == kMaxVarintBytes - 1 && byte > 1) return Malformed("a varint has more than 64 bits");
    rest_.RemovePrefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
    if ((byte & 0x80) == 0) return value;
  }
  return Malformed("a varint has more than 64 bits");
}

absl::StatusOr<std::uint64_t> WireReader::ReadFixed(int num_bytes) {
  if (rest_.size() < static_cast<std::size_t>(num_bytes))
    return Malformed("a fixed-width value is cut off");
  std::uint64_t value = 0;
  for (int i = 0; i < num_bytes; ++i) {
    value |= static_cast<std::uint64_t>(rest_.front().front()) << (8 * i);
    rest_.RemovePrefix(1);
  }
  return value;
}

absl::Status WireReader::ReadValue(WireField* field) {
  switch (field->type) {
    case WireType::kVarint: {
      ASSIGN_OR_RETURN(field->value, ReadVarint());
      return absl::OkStatus();
    }
    case WireType::kFixed64: {
      ASSIGN_OR_RETURN(field->value, ReadFixed(8));
      return absl::OkStatus();
    }
    case WireType::kFixed32: {
      ASSIGN_OR_RETURN(field->value, ReadFixed(4));
      return absl::OkStatus();
    }
    case WireType::kLengthDelimited: {
      ASSIGN_OR_RETURN(const std::uint64_t length, ReadVarint());
      if (length > rest_.size()) return Malformed("a field is longer than the message");
      field->bytes = rest_.Prefix(length);
      rest_.RemovePrefix(length);
      return absl::OkStatus();
    }
  }
  return Malformed("a field has an unknown wire type");
}

absl::StatusOr<bool> WireReader::Next(WireField* field) {
  if (rest_.empty()) return false;
  ASSIGN_OR_RETURN(const std::uint64_t tag, ReadVarint());
  const std::uint64_t number = tag >> 3;
  if (number == 0 || number > kMaxFieldNumber) return Malformed("a field number is out of range");
  const int type = static_cast<int>(tag & 7);
  if (type == 3 || type == 4) return Malformed("a group");
  *field = WireField{static_cast<std::uint32_t>(number), static_cast<WireType>(type), 0, {}};
  RETURN_IF_ERROR(ReadValue(field));
  return true;
}

absl::StatusOr<ReceivedMessage> ReceivedMessage::Take(grpc::ByteBuffer* buffer) {
  if (!buffer->Valid()) return absl::CancelledError("the call ended before its message came");
  ReceivedMessage message;
  const grpc::Status status = buffer->Dump(&message.slices_);
  buffer->Clear();
  if (!status.ok())
    return absl::InternalError(absl::StrCat("request bytes: ", status.error_message()));
  return message;
}

absl::Status ExpectWireType(const WireField& field, WireType type, const char* name) {
  if (field.type == type) return absl::OkStatus();
  return FieldError(
      name, absl::StrCat("has wire type ", NameOf(field.type), ", accepted: ", NameOf(type)));
}

}  // namespace attnd
