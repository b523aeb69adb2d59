#include "server/rpc/merge_call.h"

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "kernels/attention_shape.h"
#include "kernels/merge.h"
#include "kernels/status_macros.h"
#include "server/engine/exceptions.h"
#include "server/rpc/field_checks.h"
#include "server/rpc/proto_enums.h"
#include "server/rpc/server_timing.h"
#include "server/rpc/wire_reader.h"
#include "server/rpc/wire_writer.h"

namespace attnd {
namespace {

constexpr std::int64_t kMaxParts = 1024;
constexpr std::int64_t kMaxRows = std::int64_t{1} << 40;

// The fields of a MergeRequest, by number.
constexpr std::array kMergeFields = {"",    "num_parts", "rows",     "head_dim_v",
                                     "out", "lse",       "out_dtype"};
static_assert(v1::MergeRequest::kOutDtypeFieldNumber == kMergeFields.size() - 1);

// A MergeRequest. The views refer to the message that it was read from.
struct MergeRequestView {
  std::bitset<kMergeFields.size()> seen;
  std::int64_t num_parts = 0;
  std::int64_t rows = 0;
  std::int64_t head_dim_v = 0;
  int out_dtype = v1::DATA_TYPE_UNSPECIFIED;
  WireBytesView out;
  WireBytesView lse;
};

absl::Status ReadInteger(const WireField& field, const char* name, std::int64_t* value) {
  RETURN_IF_ERROR(ExpectWireType(field, WireType::kVarint, name));
  *value = static_cast<std::int64_t>(field.value);
  return absl::OkStatus();
}

absl::Status ReadTensor(const WireField& field, const char* name, WireBytesView* bytes) {
  RETURN_IF_ERROR(ExpectWireType(field, WireType::kLengthDelimited, name));
  *bytes = field.bytes;
  return absl::OkStatus();
}

// Each field once, unlike in protobuf: whoever sends one twice meant something else.
absl::Status ReadField(const WireField& field, MergeRequestView* request) {
  if (field.number >= kMergeFields.size()) return absl::OkStatus();
  const char* const name = kMergeFields[field.number];
  if (request->seen.test(field.number)) return FieldError(name, "is given twice, accepted: once");
  request->seen.set(field.number);
  switch (field.number) {
    case v1::MergeRequest::kNumPartsFieldNumber:
      return ReadInteger(field, name, &request->num_parts);
    case v1::MergeRequest::kRowsFieldNumber:
      return ReadInteger(field, name, &request->rows);
    case v1::MergeRequest::kHeadDimVFieldNumber:
      return ReadInteger(field, name, &request->head_dim_v);
    case v1::MergeRequest::kOutFieldNumber:
      return ReadTensor(field, name, &request->out);
    case v1::MergeRequest::kLseFieldNumber:
      return ReadTensor(field, name, &request->lse);
    default: {
      std::int64_t value = 0;
      RETURN_IF_ERROR(ReadInteger(field, name, &value));
      request->out_dtype = static_cast<int>(value);
      return absl::OkStatus();
    }
  }
}

absl::Status CheckBytes(const char* name, const WireBytesView& bytes, std::int64_t values,
                        const char* shape) {
  const std::int64_t needed = CheckedMultiply(values, sizeof(float));
  if (needed >= 0 && static_cast<std::int64_t>(bytes.size()) == needed) return absl::OkStatus();
  return FieldError(
      name, absl::StrCat(bytes.size(), " bytes, the request needs ",
                         needed < 0 ? "more than 63 bits can count" : absl::StrCat(needed), " (",
                         shape, " x 4 bytes of float32)"));
}

absl::StatusOr<MergeRequestView> ReadMergeRequest(WireBytesView message) {
  MergeRequestView request;
  WireReader reader(message);
  WireField field;
  while (true) {
    ASSIGN_OR_RETURN(const bool more, reader.Next(&field));
    if (!more) break;
    RETURN_IF_ERROR(ReadField(field, &request));
  }
  RETURN_IF_ERROR(CheckRange("num_parts", request.num_parts, 1, kMaxParts));
  RETURN_IF_ERROR(CheckRange("rows", request.rows, 0, kMaxRows));
  RETURN_IF_ERROR(CheckRange("head_dim_v", request.head_dim_v, 1, kMaxMergeDim));
  RETURN_IF_ERROR(CheckEnum("out_dtype", request.out_dtype, v1::DataType_descriptor()));
  const std::int64_t part_rows = request.num_parts * request.rows;  // at most 2^50
  RETURN_IF_ERROR(CheckBytes("out", request.out, CheckedMultiply(part_rows, request.head_dim_v),
                             "num_parts x rows x head_dim_v"));
  RETURN_IF_ERROR(CheckBytes("lse", request.lse, part_rows, "num_parts x rows"));
  return request;
}

// A result that gRPC is sending.
struct SentResult {
  ByteLedger::Lease lease;  // declared first: given back when the bytes are free
  std::shared_ptr<const std::byte[]> bytes;
};

}  // namespace

MergeCall::MergeCall(RpcState* state, grpc::CallbackServerContext* context,
                     grpc::ByteBuffer* request, grpc::ByteBuffer* response)
    : state_(state),
      context_(context),
      request_(request),
      response_(response),
      watch_(Method::kMerge, context, state->metrics) {}

void MergeCall::Start() {
  const absl::Status status = WithoutExceptions([this] { return ReadRequest(); });
  if (!status.ok()) return End(watch_.Refused(status));
  state_->engine->AdmitMerge(
      params_, watch_.control(),
      [this](absl::StatusOr<std::unique_ptr<MergeJob>> job) { OnAdmitted(std::move(job)); });
}

void MergeCall::OnAdmitted(absl::StatusOr<std::unique_ptr<MergeJob>> job) {
  if (!job.ok()) return End(BlamedOn("out", job.status()));
  admitted_ = absl::Now();
  state_->merges.Add([this, held = job->release()] {
    std::unique_ptr<MergeJob> merge(held);
    const absl::Status status = Merge(*merge);
    merge.reset();
    End(status);
  });
}

absl::Status MergeCall::ReadRequest() {
  const auto request_bytes = static_cast<std::int64_t>(request_->Length());
  watch_.CountBytes(Direction::kIn, request_bytes);
  RETURN_IF_ERROR(CheckMessageSize(request_bytes, state_->options));
  // The result, at most as large as one part, counts too.
  ASSIGN_OR_RETURN(waiting_, TakeWaiting(*state_, 2 * request_bytes));
  ASSIGN_OR_RETURN(const ReceivedMessage message, ReceivedMessage::Take(request_));
  ASSIGN_OR_RETURN(const MergeRequestView request, ReadMergeRequest(message.bytes()));

  CopyParts(request.out, request.lse);
  params_.num_parts = request.num_parts;
  params_.rows = request.rows;
  params_.dim = request.head_dim_v;
  params_.out_parts = reinterpret_cast<const float*>(parts_.get());
  params_.lse_parts = reinterpret_cast<const float*>(parts_.get() + request.out.size());
  params_.out_dtype =
      DataTypeFromProto(static_cast<v1::DataType>(request.out_dtype), DataType::kFloat32);
  AllocateResult();
  return absl::OkStatus();
}

void MergeCall::CopyParts(const WireBytesView& out, const WireBytesView& lse) {
  const absl::Time start = absl::Now();
  parts_.reset(new std::byte[out.size() + lse.size()]);
  out.CopyTo(parts_.get());
  lse.CopyTo(parts_.get() + out.size());
  copy_seconds_ = absl::ToDoubleSeconds(absl::Now() - start);
}

void MergeCall::AllocateResult() {
  out_bytes_ = params_.rows * params_.dim * SizeOf(params_.out_dtype);
  lse_bytes_ = params_.rows * static_cast<std::int64_t>(sizeof(float));
  result_.reset(new std::byte[lse_bytes_ + out_bytes_]);
  params_.lse = reinterpret_cast<float*>(result_.get());
  params_.out = result_.get() + lse_bytes_;
}

absl::Status MergeCall::Merge(MergeJob& job) {
  const double turn_seconds = absl::ToDoubleSeconds(absl::Now() - admitted_);
  RETURN_IF_ERROR(job.Run(watch_.control()));
  parts_.reset();
  JobSeconds seconds = job.seconds();
  seconds.queue += turn_seconds;
  WriteResponse(MakeTimings(seconds, copy_seconds_, watch_.seconds()));
  return absl::OkStatus();
}

void MergeCall::WriteResponse(const v1::Timings& timings) {
  AddServerTiming(context_, timings);
  const std::byte* const result = result_.get();
  auto sent = std::make_shared<SentResult>();
  sent->lease = *state_->sending.TryTake(lse_bytes_ + out_bytes_);  // has no limit
  sent->bytes = std::move(result_);
  WireWriter writer;
  writer.AddBytesView(v1::MergeResponse::kOutFieldNumber,
                      absl::MakeConstSpan(result + lse_bytes_, out_bytes_), sent);
  writer.AddBytesView(v1::MergeResponse::kLseFieldNumber, absl::MakeConstSpan(result, lse_bytes_),
                      sent);
  writer.AddBytes(v1::MergeResponse::kTimingsFieldNumber, timings.SerializeAsString());
  *response_ = writer.TakeByteBuffer();
  const auto response_bytes = static_cast<std::int64_t>(response_->Length());
  watch_.CountBytes(Direction::kOut, response_bytes);
  send_timer_.Start(Method::kMerge, context_, response_bytes, state_->options);
}

void MergeCall::End(const absl::Status& status) {
  // gRPC may delete this call on another thread as soon as it is finished.
  Finish(watch_.Finish(status));
}

}  // namespace attnd
