#include "client/cpp/wire_format.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>
#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace attnd::internal {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;

// Tag and length of a length-delimited field whose contents follow.
std::string FieldHeader(int number, std::size_t size) {
  std::uint8_t buffer[20];  // two varints of at most 10 bytes
  const auto tag = WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  std::uint8_t* end = CodedOutputStream::WriteVarint32ToArray(tag, buffer);
  end = CodedOutputStream::WriteVarint64ToArray(size, end);
  return std::string(reinterpret_cast<const char*>(buffer), end - buffer);
}

absl::Status Malformed(const char* message) {
  return absl::InternalError(absl::StrCat("the server's ", message, " is not well-formed"));
}

bool IsLengthDelimited(std::uint32_t tag) {
  return WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
}

// Steps over the contents of a bytes field and notes where they were.
bool LocateBytes(CodedInputStream& in, BytesField& field) {
  std::uint32_t size = 0;
  if (!in.ReadVarint32(&size) || size > INT32_MAX) return false;
  field = {.position = in.CurrentPosition(), .size = size};
  return in.Skip(static_cast<int>(size));
}

bool ReadMessage(CodedInputStream& in, google::protobuf::MessageLite& message) {
  std::uint32_t size = 0;
  std::string bytes;
  return in.ReadVarint32(&size) && size <= INT32_MAX && in.ReadString(&bytes, size) &&
         message.MergeFromString(bytes);
}

// Calls `read_field(tag)` for every field up to the limit of `in`; it says whether it read the
// contents, or std::nullopt for a field it does not know, which is skipped. False if a field is cut
// short.
template <typename ReadField>
bool ForEachField(CodedInputStream& in, ReadField read_field) {
  while (const std::uint32_t tag = in.ReadTag()) {
    const std::optional<bool> read = read_field(tag);
    if (!(read.has_value() ? *read : WireFormatLite::SkipField(&in, tag))) return false;
  }
  return in.ConsumedEntireMessage();
}

bool ReadChunk(CodedInputStream& in, StreamResponseParts& parts) {
  return ForEachField(in, [&](std::uint32_t tag) -> std::optional<bool> {
    const int number = WireFormatLite::GetTagFieldNumber(tag);
    if (number == v1::TensorChunk::kDataFieldNumber) {
      if (!IsLengthDelimited(tag)) return false;
      return LocateBytes(in, parts.data);
    }
    if (number != v1::TensorChunk::kTensorFieldNumber &&
        number != v1::TensorChunk::kOffsetBytesFieldNumber) {
      return std::nullopt;
    }
    std::uint64_t value = 0;
    if (IsLengthDelimited(tag) || !in.ReadVarint64(&value)) return false;
    if (number == v1::TensorChunk::kTensorFieldNumber) {
      parts.tensor = static_cast<v1::TensorId>(value);
    } else {
      parts.offset_bytes = static_cast<std::int64_t>(value);
    }
    return true;
  });
}

}  // namespace

void MessageBuilder::AddSmall(const std::string& bytes) {
  if (!bytes.empty()) slices_.emplace_back(bytes);
}

void MessageBuilder::AddFields(const google::protobuf::MessageLite& fields) {
  AddSmall(fields.SerializeAsString());
}

void MessageBuilder::AddMessageField(int number, const google::protobuf::MessageLite& message) {
  const std::string bytes = message.SerializeAsString();
  AddSmall(FieldHeader(number, bytes.size()) + bytes);
}

void MessageBuilder::AddBytesField(int number, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  AddSmall(FieldHeader(number, bytes.size()));
  slices_.push_back(lent_.Lend(bytes));
}

grpc::ByteBuffer MessageBuilder::Build() {
  return grpc::ByteBuffer(slices_.data(), slices_.size());
}

grpc::ByteBuffer EncodeChunk(v1::TensorId tensor, std::int64_t offset_bytes,
                             std::span<const std::byte> data, LentMemory& lent) {
  v1::TensorChunk chunk;
  chunk.set_tensor(tensor);
  chunk.set_offset_bytes(offset_bytes);
  const std::string prefix =
      chunk.SerializeAsString() + FieldHeader(v1::TensorChunk::kDataFieldNumber, data.size());
  const std::string header =
      FieldHeader(v1::AttendStreamRequest::kChunkFieldNumber, prefix.size() + data.size());
  const grpc::Slice slices[] = {grpc::Slice(header + prefix), lent.Lend(data)};
  return grpc::ByteBuffer(slices, 2);
}

absl::StatusOr<AttendResponseParts> ParseAttendResponse(grpc::ByteBuffer& message) {
  AttendResponseParts parts;
  grpc::ProtoBufferReader reader(&message);
  CodedInputStream in(&reader);
  const bool read = ForEachField(in, [&](std::uint32_t tag) -> std::optional<bool> {
    if (!IsLengthDelimited(tag)) return std::nullopt;
    switch (WireFormatLite::GetTagFieldNumber(tag)) {
      case v1::AttendResponse::kResultFieldNumber:
        return ReadMessage(in, parts.result);
      case v1::AttendResponse::kOutFieldNumber:
        return LocateBytes(in, parts.out);
      case v1::AttendResponse::kLseFieldNumber:
        return LocateBytes(in, parts.lse);
      case v1::AttendResponse::kProbsFieldNumber:
        return LocateBytes(in, parts.probs);
      default:
        return std::nullopt;
    }
  });
  if (!read) return Malformed("AttendResponse");
  return parts;
}

absl::StatusOr<StreamResponseParts> ParseStreamResponse(grpc::ByteBuffer& message) {
  StreamResponseParts parts;
  grpc::ProtoBufferReader reader(&message);
  CodedInputStream in(&reader);
  const bool read = ForEachField(in, [&](std::uint32_t tag) -> std::optional<bool> {
    if (!IsLengthDelimited(tag)) return std::nullopt;
    switch (WireFormatLite::GetTagFieldNumber(tag)) {
      case v1::AttendStreamResponse::kResultFieldNumber:
        return ReadMessage(in, parts.result.emplace());
      case v1::AttendStreamResponse::kChunkFieldNumber: {
        std::uint32_t size = 0;
        if (!in.ReadVarint32(&size) || size > INT32_MAX) return false;
        const auto outer = in.PushLimit(static_cast<int>(size));
        const bool ok = ReadChunk(in, parts);
        in.PopLimit(outer);
        return ok;
      }
      default:
        return std::nullopt;
    }
  });
  if (!read) return Malformed("AttendStreamResponse");
  return parts;
}

absl::StatusOr<MergeResponseParts> ParseMergeResponse(grpc::ByteBuffer& message) {
  MergeResponseParts parts;
  grpc::ProtoBufferReader reader(&message);
  CodedInputStream in(&reader);
  const bool read = ForEachField(in, [&](std::uint32_t tag) -> std::optional<bool> {
    if (!IsLengthDelimited(tag)) return std::nullopt;
    switch (WireFormatLite::GetTagFieldNumber(tag)) {
      case v1::MergeResponse::kOutFieldNumber:
        return LocateBytes(in, parts.out);
      case v1::MergeResponse::kLseFieldNumber:
        return LocateBytes(in, parts.lse);
      case v1::MergeResponse::kTimingsFieldNumber:
        return ReadMessage(in, parts.timings);
      default:
        return std::nullopt;
    }
  });
  if (!read) return Malformed("MergeResponse");
  return parts;
}

absl::Status CopyBytes(const grpc::ByteBuffer& message, BytesField field,
                       std::span<std::byte> destination) {
  std::vector<grpc::Slice> slices;
  if (!message.Dump(&slices).ok()) return Malformed("message");
  std::int64_t begin = field.position;  // of what is still to be skipped
  std::size_t copied = 0;
  for (const grpc::Slice& slice : slices) {
    const auto size = static_cast<std::int64_t>(slice.size());
    if (copied == destination.size()) break;
    if (begin >= size) {
      begin -= size;
      continue;
    }
    const std::size_t count = std::min<std::size_t>(size - begin, destination.size() - copied);
    std::memcpy(destination.data() + copied, slice.begin() + begin, count);
    copied += count;
    begin = 0;
  }
  if (copied != destination.size()) return Malformed("message");
  return absl::OkStatus();
}

}  // namespace attnd::internal
