// Decodes and encodes the messages of Attend and AttendStream. Tensor bytes stay where they are: in
// network slices on the way in, in staging memory on the way out.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <variant>

#include "absl/status/statusor.h"
#include "attnd/v1/attention.pb.h"
#include "grpcpp/support/byte_buffer.h"
#include "server/engine/engine.h"
#include "server/rpc/wire_bytes.h"

namespace attnd {

// An AttendRequest. The views refer to the message that it was read from.
struct AttendRequestView {
  v1::AttentionSpec spec;
  std::array<WireBytesView, kNumInputTensors>
      tensors;  // in the order of InputTensor; empty if absent
};

// InvalidArgument for what is not an AttendRequest, for a field given twice and for a spec that is
// missing, empty or of more than 16 MiB.
absl::StatusOr<AttendRequestView> ReadAttendRequest(WireBytesView message);

// A TensorChunk. `data` refers to the message that it was read from.
struct TensorChunkView {
  InputTensor tensor = InputTensor::kQ;
  std::int64_t offset_bytes = 0;
  WireBytesView data;
};

// An AttendStreamRequest: the header or a chunk. InvalidArgument for anything else, an empty
// message included, and for a chunk of a tensor that is not an input.
using AttendStreamRequestView = std::variant<v1::AttentionSpec, TensorChunkView>;
absl::StatusOr<AttendStreamRequestView> ReadAttendStreamRequest(WireBytesView message);

// What is said of a finished job beside its tensors. `copy_seconds` is the time that moving the
// request's bytes to staging took, `total_seconds` that of the call so far.
v1::AttendResult MakeAttendResult(const AttentionJob& job, double copy_seconds,
                                  double total_seconds);

// AttendResponse{result, out, lse, probs}. The tensors are not copied: the message keeps `job`.
grpc::ByteBuffer WriteAttendResponse(const v1::AttendResult& result,
                                     const std::shared_ptr<const AttentionJob>& job);

// AttendStreamResponse{result}.
grpc::ByteBuffer WriteStreamResult(const v1::AttendResult& result);
// AttendStreamResponse{chunk} of `size_bytes` of `tensor` from `offset_bytes` on. The message keeps
// `job`.
grpc::ByteBuffer WriteStreamChunk(OutputTensor tensor, std::int64_t offset_bytes,
                                  std::int64_t size_bytes,
                                  const std::shared_ptr<const AttentionJob>& job);

}  // namespace attnd
