#include "server/rpc/attend_messages.h"

#include <bitset>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"
#include "server/rpc/error_details.h"
#include "server/rpc/proto_enums.h"
#include "server/rpc/server_timing.h"
#include "server/rpc/wire_reader.h"
#include "server/rpc/wire_writer.h"

namespace attnd {
namespace {

// Room for the longest lists that any request may have, and far below protobuf's own limit of 2
// GiB.
constexpr std::size_t kMaxSpecBytes = 16 << 20;

// AttendRequest numbers its tensors in the order of InputTensor, from q on; TensorId too.
constexpr std::uint32_t kFirstTensorField = v1::AttendRequest::kQFieldNumber;
static_assert(v1::AttendRequest::kBiasFieldNumber - kFirstTensorField ==
              static_cast<int>(InputTensor::kBias));
static_assert(v1::TENSOR_ID_BIAS - v1::TENSOR_ID_Q == static_cast<int>(InputTensor::kBias));
static_assert(v1::TENSOR_ID_PROBS - v1::TENSOR_ID_OUT == static_cast<int>(OutputTensor::kProbs));
static_assert(v1::AttendResponse::kProbsFieldNumber - v1::AttendResponse::kOutFieldNumber ==
              static_cast<int>(OutputTensor::kProbs));

absl::Status NoSpec(absl::string_view name, absl::string_view what) {
  return FieldError(name, absl::StrCat(what,
                                       ", accepted: an attnd.v1.AttentionSpec with at least "
                                       "batch_size, num_heads, head_dim and dtype"));
}

absl::Status ReadSpec(const WireField& field, absl::string_view name, v1::AttentionSpec* spec) {
  RETURN_IF_ERROR(ExpectWireType(field, WireType::kLengthDelimited, std::string(name).c_str()));
  if (field.bytes.size() > kMaxSpecBytes) {
    return FieldError(name, absl::StrCat("has ", field.bytes.size(), " bytes, accepted: at most ",
                                         kMaxSpecBytes));
  }
  if (field.bytes.empty()) return NoSpec(name, "is empty");
  const absl::Span<const std::uint8_t> front = field.bytes.front();
  const bool parsed = front.size() == field.bytes.size()
                          ? spec->ParseFromArray(front.data(), static_cast<int>(front.size()))
                          : spec->ParseFromString(field.bytes.ToString());
  if (parsed) return absl::OkStatus();
  return FieldError(name, absl::StrCat("has ", field.bytes.size(), " bytes that are not protobuf, ",
                                       "accepted: a serialised attnd.v1.AttentionSpec"));
}

// Protobuf lets a later field replace an earlier one; of megabytes, that is never what a caller
// meant.
absl::Status GivenTwice(absl::string_view name) {
  return FieldError(name, "is given twice, accepted: once");
}

absl::StatusOr<InputTensor> InputTensorFromId(int id) {
  if (id >= v1::TENSOR_ID_Q && id <= v1::TENSOR_ID_BIAS)
    return static_cast<InputTensor>(id - v1::TENSOR_ID_Q);
  const std::string& name = v1::TensorId_Name(id);
  return FieldError(
      "chunk.tensor",
      absl::StrCat("is ", name.empty() ? absl::StrCat("the unknown value ", id) : name,
                   ", accepted: TENSOR_ID_Q, TENSOR_ID_K, TENSOR_ID_V, TENSOR_ID_MASK, "
                   "TENSOR_ID_BIAS"));
}

absl::StatusOr<TensorChunkView> ReadTensorChunk(WireBytesView message) {
  TensorChunkView chunk;
  int tensor_id = v1::TENSOR_ID_UNSPECIFIED;
  bool has_data = false;
  WireReader reader(message);
  WireField field;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&field));
    if (!more) break;
    switch (field.number) {
      case v1::TensorChunk::kTensorFieldNumber:
        RETURN_IF_ERROR(ExpectWireType(field, WireType::kVarint, "chunk.tensor"));
        tensor_id = static_cast<int>(field.value);  // enums are 32 bits wide, as in protobuf
        break;
      case v1::TensorChunk::kOffsetBytesFieldNumber:
        RETURN_IF_ERROR(ExpectWireType(field, WireType::kVarint, "chunk.offset_bytes"));
        chunk.offset_bytes = static_cast<std::int64_t>(field.value);
        break;
      case v1::TensorChunk::kDataFieldNumber:
        RETURN_IF_ERROR(ExpectWireType(field, WireType::kLengthDelimited, "chunk.data"));
        if (has_data) return GivenTwice("chunk.data");
        has_data = true;
        chunk.data = field.bytes;
        break;
      default:
        break;
    }
  }
  ASSIGN_OR_RETURN(chunk.tensor, InputTensorFromId(tensor_id));
  return chunk;
}

}  // namespace

absl::StatusOr<AttendRequestView> ReadAttendRequest(WireBytesView message) {
  AttendRequestView request;
  std::bitset<kFirstTensorField + kNumInputTensors> seen;
  WireReader reader(message);
  WireField field;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&field));
    if (!more) break;
    if (field.number >= seen.size()) continue;
    const bool is_spec = field.number == v1::AttendRequest::kSpecFieldNumber;
    const char* const name =
        is_spec ? "spec" : NameOf(static_cast<InputTensor>(field.number - kFirstTensorField));
    if (seen.test(field.number)) return GivenTwice(name);
    seen.set(field.number);
    if (is_spec) {
      RETURN_IF_ERROR(ReadSpec(field, name, &request.spec));
    } else {
      RETURN_IF_ERROR(ExpectWireType(field, WireType::kLengthDelimited, name));
      request.tensors[field.number - kFirstTensorField] = field.bytes;
    }
  }
  if (!seen.test(v1::AttendRequest::kSpecFieldNumber)) return NoSpec("spec", "is missing");
  return request;
}

absl::StatusOr<AttendStreamRequestView> ReadAttendStreamRequest(WireBytesView message) {
  constexpr char kAccepted[] = "accepted: a header or a chunk, once";
  std::optional<AttendStreamRequestView> request;
  WireReader reader(message);
  WireField field;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&field));
    if (!more) break;
    const bool is_header = field.number == v1::AttendStreamRequest::kHeaderFieldNumber;
    if (!is_header && field.number != v1::AttendStreamRequest::kChunkFieldNumber) continue;
    if (request.has_value()) return FieldError("message", absl::StrCat("has several, ", kAccepted));
    if (is_header) {
      RETURN_IF_ERROR(ReadSpec(field, "header", &request.emplace().emplace<v1::AttentionSpec>()));
    } else {
      RETURN_IF_ERROR(ExpectWireType(field, WireType::kLengthDelimited, "chunk"));
      ASSIGN_OR_RETURN(request, ReadTensorChunk(field.bytes));
    }
  }
  if (!request.has_value()) return FieldError("message", absl::StrCat("is empty, ", kAccepted));
  return *std::move(request);
}

v1::AttendResult MakeAttendResult(const AttentionJob& job, double copy_seconds,
                                  double total_seconds) {
  v1::AttendResult result;
  result.set_out_dtype(DataTypeToProto(job.plan().problem.params.out.dtype));
  result.set_out_bytes(job.output(OutputTensor::kOut).size());
  result.set_lse_bytes(job.output(OutputTensor::kLse).size());
  result.set_probs_bytes(job.output(OutputTensor::kProbs).size());
  result.set_kernel(std::string(job.plan().kernel->name));
  if (const AttentionDiagnostics* from = job.diagnostics()) {
    v1::Diagnostics& to = *result.mutable_diagnostics();
    to.set_score_min(from->score_min);
    to.set_score_max(from->score_max);
    to.set_lse_min(from->lse_min);
    to.set_lse_max(from->lse_max);
    to.set_largest_weight(from->largest_weight);
    to.set_rows_fully_masked(from->rows_fully_masked);
    to.set_nonfinite_q(from->nonfinite_q);
    to.set_nonfinite_k(from->nonfinite_k);
    to.set_nonfinite_v(from->nonfinite_v);
  }
  *result.mutable_timings() = MakeTimings(job.seconds(), copy_seconds, total_seconds);
  return result;
}

grpc::ByteBuffer WriteAttendResponse(const v1::AttendResult& result,
                                     const std::shared_ptr<const AttentionJob>& job) {
  WireWriter writer;
  writer.AddBytes(v1::AttendResponse::kResultFieldNumber, result.SerializeAsString());
  for (const OutputTensor tensor : {OutputTensor::kOut, OutputTensor::kLse, OutputTensor::kProbs}) {
    writer.AddBytesView(v1::AttendResponse::kOutFieldNumber + static_cast<int>(tensor),
                        job->output(tensor), job);
  }
  return writer.TakeByteBuffer();
}

grpc::ByteBuffer WriteStreamResult(const v1::AttendResult& result) {
  WireWriter writer;
  writer.AddBytes(v1::AttendStreamResponse::kResultFieldNumber, result.SerializeAsString());
  return writer.TakeByteBuffer();
}

grpc::ByteBuffer WriteStreamChunk(OutputTensor tensor, std::int64_t offset_bytes,
                                  std::int64_t size_bytes,
                                  const std::shared_ptr<const AttentionJob>& job) {
  WireWriter chunk;
  chunk.AddVarint(v1::TensorChunk::kTensorFieldNumber,
                  v1::TENSOR_ID_OUT + static_cast<int>(tensor));
  chunk.AddVarint(v1::TensorChunk::kOffsetBytesFieldNumber, offset_bytes);
  chunk.AddBytesView(v1::TensorChunk::kDataFieldNumber,
                     job->output(tensor).subspan(offset_bytes, size_bytes), job);
  WireWriter writer;
  writer.AddMessage(v1::AttendStreamResponse::kChunkFieldNumber, std::move(chunk));
  return writer.TakeByteBuffer();
}

}  // namespace attnd
