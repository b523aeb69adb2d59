// Puts the tensors of an answer where the caller wants them, and makes sure that the answer fits
// the question.
#pragma once

#include <grpcpp/support/byte_buffer.h>

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "attnd/client.h"
#include "client/cpp/result_bytes.h"
#include "client/cpp/wire_format.h"

namespace attnd::internal {

// Takes one answer: Begin, then Write in rising order of offset within each tensor, then Finish.
// May be begun anew for another attempt of the call.
class ResultReceiver {
 public:
  // `destination`: as in Client::Attend.
  ResultReceiver(const ResultBytes& expected, const AttendDestination& destination);

  // InvalidArgument if a tensor of the destination does not have the size of the result.
  absl::Status CheckDestination() const;

  // Internal if the sizes that the server announces are not those of the question.
  absl::Status Begin(const v1::AttendResult& result);
  // Copies `data` of `message` to `offset_bytes` of `tensor`. Internal if it does not continue what
  // came before.
  absl::Status Write(v1::TensorId tensor, std::int64_t offset_bytes, BytesField data,
                     const grpc::ByteBuffer& message);
  // Internal if bytes are missing.
  absl::StatusOr<AttendReply> Finish();

  bool begun() const { return begun_; }

 private:
  struct Tensor {
    const char* name = "";
    std::int64_t expected_bytes = 0;
    std::span<std::byte> destination = {};
    TensorBytes bytes = {};
    std::int64_t received_bytes = 0;
  };

  Tensor* Find(v1::TensorId id);

  Tensor out_;
  Tensor lse_;
  Tensor probs_;
  v1::AttendResult result_;
  bool begun_ = false;
};

}  // namespace attnd::internal
