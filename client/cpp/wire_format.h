// Messages with tensors in them, written and read without passing the tensors through Protocol
// Buffers: it would copy them twice. Field numbers are those of attention.proto, which the
// generated constants give.
#pragma once

#include <google/protobuf/message_lite.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "client/cpp/lent_memory.h"

namespace attnd::internal {

// Builds one message field by field. Bytes fields are slices over the caller's memory.
class MessageBuilder {
 public:
  explicit MessageBuilder(LentMemory& lent) : lent_(lent) {}

  // Adds all fields of `fields`, as if they were fields of the message being built.
  void AddFields(const google::protobuf::MessageLite& fields);
  void AddMessageField(int number, const google::protobuf::MessageLite& message);
  // Nothing, if `bytes` is empty: that is the default of a bytes field.
  void AddBytesField(int number, std::span<const std::byte> bytes);

  // The message so far. Call once.
  grpc::ByteBuffer Build();

 private:
  void AddSmall(const std::string& bytes);

  LentMemory& lent_;
  std::vector<grpc::Slice> slices_;
};

// An AttendStreamRequest with a chunk of `tensor` that begins at `offset_bytes`.
grpc::ByteBuffer EncodeChunk(v1::TensorId tensor, std::int64_t offset_bytes,
                             std::span<const std::byte> data, LentMemory& lent);

// Where the contents of a bytes field lie in a message; {0, 0} for an absent field.
struct BytesField {
  std::int64_t position = 0;
  std::int64_t size = 0;
};

struct AttendResponseParts {
  v1::AttendResult result;
  BytesField out;
  BytesField lse;
  BytesField probs;
};

// One of the two kinds of AttendStreamResponse.
struct StreamResponseParts {
  std::optional<v1::AttendResult> result;
  v1::TensorId tensor = v1::TENSOR_ID_UNSPECIFIED;
  std::int64_t offset_bytes = 0;
  BytesField data;
};

struct MergeResponseParts {
  BytesField out;
  BytesField lse;
  v1::Timings timings;
};

// Internal if the bytes are not such a message.
absl::StatusOr<AttendResponseParts> ParseAttendResponse(grpc::ByteBuffer& message);
absl::StatusOr<StreamResponseParts> ParseStreamResponse(grpc::ByteBuffer& message);
absl::StatusOr<MergeResponseParts> ParseMergeResponse(grpc::ByteBuffer& message);

// Copies the contents of `field` to `destination`, which has field.size bytes. Internal if the
// message ends first.
absl::Status CopyBytes(const grpc::ByteBuffer& message, BytesField field,
                       std::span<std::byte> destination);

}  // namespace attnd::internal
