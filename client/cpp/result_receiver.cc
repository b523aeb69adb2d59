#include "client/cpp/result_receiver.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace attnd::internal {
namespace {

absl::Status Unexpected(const char* tensor, std::int64_t got, std::int64_t expected) {
  return absl::InternalError(
      absl::StrCat(tensor, ": the server announced ", got, " bytes, the result has ", expected));
}

}  // namespace

ResultReceiver::ResultReceiver(const ResultBytes& expected, const AttendDestination& destination)
    : out_{.name = "out", .expected_bytes = expected.out, .destination = destination.out},
      lse_{.name = "lse", .expected_bytes = expected.lse, .destination = destination.lse},
      probs_{.name = "probs", .expected_bytes = expected.probs, .destination = destination.probs} {}

absl::Status ResultReceiver::CheckDestination() const {
  for (const Tensor* tensor : {&out_, &lse_, &probs_}) {
    const auto given = static_cast<std::int64_t>(tensor->destination.size());
    if (given != 0 && given != tensor->expected_bytes) {
      return absl::InvalidArgumentError(absl::StrCat(tensor->name, ": the destination has ", given,
                                                     " bytes, the result has ",
                                                     tensor->expected_bytes));
    }
  }
  return absl::OkStatus();
}

absl::Status ResultReceiver::Begin(const v1::AttendResult& result) {
  const std::pair<Tensor*, std::int64_t> announced[] = {
      {&out_, result.out_bytes()}, {&lse_, result.lse_bytes()}, {&probs_, result.probs_bytes()}};
  for (const auto& [tensor, bytes] : announced) {
    if (bytes != tensor->expected_bytes) {
      return Unexpected(tensor->name, bytes, tensor->expected_bytes);
    }
    tensor->bytes = tensor->destination.empty() ? TensorBytes::Allocate(bytes)
                                                : TensorBytes::Borrow(tensor->destination);
    tensor->received_bytes = 0;
  }
  result_ = result;
  begun_ = true;
  return absl::OkStatus();
}

absl::Status ResultReceiver::Write(v1::TensorId id, std::int64_t offset_bytes, BytesField data,
                                   const grpc::ByteBuffer& message) {
  Tensor* const tensor = Find(id);
  if (!begun_ || tensor == nullptr) {
    return absl::InternalError(absl::StrCat("the server sent bytes of tensor ", id,
                                            begun_ ? "" : " before the result's sizes"));
  }
  const std::int64_t room = tensor->expected_bytes - tensor->received_bytes;
  if (offset_bytes != tensor->received_bytes || data.size > room) {
    return absl::InternalError(absl::StrCat(
        tensor->name, ": the server sent ", data.size, " bytes at offset ", offset_bytes,
        " where offset ", tensor->received_bytes, " of ", tensor->expected_bytes, " was next"));
  }
  const auto part = tensor->bytes.bytes().subspan(offset_bytes, data.size);
  if (absl::Status status = CopyBytes(message, data, part); !status.ok()) return status;
  tensor->received_bytes += data.size;
  return absl::OkStatus();
}

absl::StatusOr<AttendReply> ResultReceiver::Finish() {
  if (!begun_) return absl::InternalError("the server's answer has no result");
  for (const Tensor* tensor : {&out_, &lse_, &probs_}) {
    if (tensor->received_bytes != tensor->expected_bytes) {
      return absl::InternalError(absl::StrCat(tensor->name, ": the server sent ",
                                              tensor->received_bytes, " of ",
                                              tensor->expected_bytes, " bytes"));
    }
  }
  AttendReply reply;
  reply.result = std::move(result_);
  reply.out = std::move(out_.bytes);
  reply.lse = std::move(lse_.bytes);
  reply.probs = std::move(probs_.bytes);
  return reply;
}

ResultReceiver::Tensor* ResultReceiver::Find(v1::TensorId id) {
  switch (id) {
    case v1::TENSOR_ID_OUT:
      return &out_;
    case v1::TENSOR_ID_LSE:
      return &lse_;
    case v1::TENSOR_ID_PROBS:
      return &probs_;
    default:
      return nullptr;
  }
}

}  // namespace attnd::internal
