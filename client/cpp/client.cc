#include "attnd/client.h"

#include <google/protobuf/message_lite.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/support/channel_arguments.h>
#include <grpcpp/support/proto_buffer_reader.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/cpp/attend_stream.h"
#include "client/cpp/lent_memory.h"
#include "client/cpp/result_bytes.h"
#include "client/cpp/result_receiver.h"
#include "client/cpp/retry.h"
#include "client/cpp/unary_call.h"
#include "client/cpp/wire_format.h"

namespace attnd {
namespace {

using internal::AttemptOutcome;
using internal::Attempts;
using internal::LentMemory;
using internal::MessageBuilder;
using internal::ResultBytes;
using internal::ResultReceiver;

constexpr char kAttend[] = "/attnd.v1.AttentionService/Attend";
constexpr char kMerge[] = "/attnd.v1.AttentionService/Merge";
constexpr char kGetServerInfo[] = "/attnd.v1.AttentionService/GetServerInfo";

// What a message holds beside tensors: field headers, and in an answer the kernel's name,
// diagnostics and timings.
constexpr std::int64_t kMessageOverheadBytes = 4096;
// What every server takes in one message: the least that its max_message_bytes may be set to.
constexpr std::int64_t kLeastMessageLimitBytes = 64 << 10;

absl::Status CheckOptions(const ClientOptions& options) {
  if (options.retry.max_attempts < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("retry.max_attempts: ", options.retry.max_attempts, ", at least 1 accepted"));
  }
  if (options.chunk_bytes < 1 || options.chunk_bytes > (1 << 30)) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk_bytes: ", options.chunk_bytes, ", 1 to ", 1 << 30, " accepted"));
  }
  return absl::OkStatus();
}

// The pool of connections is the channel's own, so that every Client has its own connection. gRPC's
// retries are off: they keep copies of messages, and this library makes its own. Keepalive bounds
// how long a dead peer holds memory lent to it.
grpc::ChannelArguments ChannelArguments() {
  grpc::ChannelArguments arguments;
  arguments.SetMaxReceiveMessageSize(-1);
  arguments.SetMaxSendMessageSize(-1);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 60'000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 20'000);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5'000);
  return arguments;
}

// Whether a message with so many bytes of tensors is within the limit of whatever server.
bool FitsAnyLimit(std::int64_t bytes) {
  return bytes <= kLeastMessageLimitBytes - kMessageOverheadBytes;
}

std::int64_t TotalBytes(const AttendInputs& inputs) {
  return inputs.q.size() + inputs.k.size() + inputs.v.size() + inputs.mask.size() +
         inputs.bias.size();
}

grpc::ByteBuffer EncodeAttendRequest(const v1::AttentionSpec& spec, const AttendInputs& inputs,
                                     LentMemory& lent) {
  MessageBuilder message(lent);
  message.AddMessageField(v1::AttendRequest::kSpecFieldNumber, spec);
  message.AddBytesField(v1::AttendRequest::kQFieldNumber, inputs.q);
  message.AddBytesField(v1::AttendRequest::kKFieldNumber, inputs.k);
  message.AddBytesField(v1::AttendRequest::kVFieldNumber, inputs.v);
  message.AddBytesField(v1::AttendRequest::kMaskFieldNumber, inputs.mask);
  message.AddBytesField(v1::AttendRequest::kBiasFieldNumber, inputs.bias);
  return message.Build();
}

absl::Status ReceiveAttendResponse(grpc::ByteBuffer& message, ResultReceiver& receiver) {
  const auto parts = internal::ParseAttendResponse(message);
  if (!parts.ok()) return parts.status();
  absl::Status status = receiver.Begin(parts->result);
  status.Update(receiver.Write(v1::TENSOR_ID_OUT, 0, parts->out, message));
  status.Update(receiver.Write(v1::TENSOR_ID_LSE, 0, parts->lse, message));
  status.Update(receiver.Write(v1::TENSOR_ID_PROBS, 0, parts->probs, message));
  return status;
}

AttemptOutcome CallAttend(grpc::GenericStub& stub, absl::Time deadline,
                          const grpc::ByteBuffer& request, ResultReceiver& receiver) {
  grpc::ByteBuffer response;
  AttemptOutcome outcome = internal::CallUnary(stub, kAttend, deadline, request, response);
  if (outcome.status.ok()) outcome.status = ReceiveAttendResponse(response, receiver);
  return outcome;
}

grpc::ByteBuffer EncodeMergeRequest(const MergeInputs& inputs, LentMemory& lent) {
  v1::MergeRequest sizes;
  sizes.set_num_parts(inputs.num_parts);
  sizes.set_rows(inputs.rows);
  sizes.set_head_dim_v(inputs.head_dim_v);
  sizes.set_out_dtype(inputs.out_dtype);
  MessageBuilder message(lent);
  message.AddFields(sizes);
  message.AddBytesField(v1::MergeRequest::kOutFieldNumber, inputs.out);
  message.AddBytesField(v1::MergeRequest::kLseFieldNumber, inputs.lse);
  return message.Build();
}

absl::StatusOr<MergeReply> ReceiveMergeResponse(grpc::ByteBuffer& message,
                                                const ResultBytes& expected) {
  const auto parts = internal::ParseMergeResponse(message);
  if (!parts.ok()) return parts.status();
  if (parts->out.size != expected.out || parts->lse.size != expected.lse) {
    return absl::InternalError(
        absl::StrCat("the server sent ", parts->out.size, " bytes of out and ", parts->lse.size,
                     " of lse, the result has ", expected.out, " and ", expected.lse));
  }
  MergeReply reply{.out = TensorBytes::Allocate(expected.out),
                   .lse = TensorBytes::Allocate(expected.lse),
                   .timings = parts->timings};
  absl::Status status = internal::CopyBytes(message, parts->out, reply.out.bytes());
  status.Update(internal::CopyBytes(message, parts->lse, reply.lse.bytes()));
  if (!status.ok()) return status;
  return reply;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Client>> Client::Connect(const std::string& target,
                                                        const ClientOptions& options) {
  if (absl::Status status = CheckOptions(options); !status.ok()) return status;
  const auto credentials =
      options.credentials ? options.credentials : grpc::InsecureChannelCredentials();
  const auto channel = grpc::CreateCustomChannel(target, credentials, ChannelArguments());
  std::unique_ptr<Client> client(new Client(channel, options));
  const auto info = client->GetServerInfo({.timeout = options.connect_timeout});
  if (!info.ok()) return info.status();
  return client;
}

Client::Client(const std::shared_ptr<grpc::Channel>& channel, const ClientOptions& options)
    : options_(options), stub_(channel) {}

// What is asked, and where the answer goes.
struct Client::Question {
  const v1::AttentionSpec& spec;
  const AttendInputs& inputs;
  const AttendDestination& destination;
  // A spec without a sound size is the server's to refuse, in its words.
  std::optional<ResultBytes> expected = internal::ResultBytesOf(spec);

  ResultReceiver Receiver() const {
    return ResultReceiver(expected.value_or(ResultBytes{}), destination);
  }
  absl::Status CheckDestination() const {
    return expected.has_value() ? Receiver().CheckDestination() : absl::OkStatus();
  }
  // Of the two messages that a unary call takes.
  std::int64_t LargestMessageBytes() const {
    return std::max<std::int64_t>(TotalBytes(inputs) + spec.ByteSizeLong(),
                                  expected.value_or(ResultBytes{}).total());
  }
};

// How a problem travels.
struct Client::Transfer {
  bool streamed = false;
  std::int64_t chunk_bytes = 0;  // of a stream

  friend bool operator==(const Transfer&, const Transfer&) = default;
};

absl::StatusOr<AttendReply> Client::Attend(const v1::AttentionSpec& spec,
                                           const AttendInputs& inputs, const CallOptions& call,
                                           const AttendDestination& destination) {
  Attempts attempts(options_.retry, absl::Now() + call.timeout);
  const Question question = {.spec = spec, .inputs = inputs, .destination = destination};
  if (absl::Status status = question.CheckDestination(); !status.ok()) return status;
  const std::int64_t largest_bytes = question.LargestMessageBytes();
  const Transfer transfer = ChooseTransfer(call.kind, largest_bytes);
  absl::StatusOr<AttendReply> reply = AttendBy(transfer, question, attempts);
  const std::int64_t sent_bytes = transfer.streamed ? transfer.chunk_bytes : largest_bytes;
  if (!AskedForLimitAfter(attempts, sent_bytes)) return reply;
  const Transfer now = ChooseTransfer(call.kind, largest_bytes);
  if (now == transfer || !attempts.any_left()) return reply;
  return AttendBy(now, question, attempts);
}

absl::StatusOr<AttendReply> Client::AttendBy(const Transfer& transfer, const Question& question,
                                             Attempts& attempts) {
  ResultReceiver receiver = question.Receiver();
  LentMemory lent;  // its destructor waits; all that refers to the inputs is gone by then
  const absl::Time deadline = attempts.deadline();
  absl::Time attempt_began;
  auto attempt = [&] {
    attempt_began = absl::Now();
    return transfer.streamed
               ? internal::CallAttendStream(stub_, deadline,
                                            {question.spec, question.inputs, transfer.chunk_bytes},
                                            lent, receiver)
               : CallAttend(stub_, deadline,
                            EncodeAttendRequest(question.spec, question.inputs, lent), receiver);
  };
  if (absl::Status status = attempts.Run(attempt); !status.ok()) return status;
  absl::StatusOr<AttendReply> reply = receiver.Finish();
  if (!reply.ok()) return reply;
  reply->round_trip_seconds = absl::ToDoubleSeconds(absl::Now() - attempt_began);
  reply->attempts = attempts.made();
  reply->streamed = transfer.streamed;
  return reply;
}

absl::StatusOr<MergeReply> Client::Merge(const MergeInputs& inputs, const CallOptions& call) {
  Attempts attempts(options_.retry, absl::Now() + call.timeout);
  const std::int64_t request_bytes = inputs.out.size() + inputs.lse.size();
  if (!FitsOneMessage(request_bytes)) {
    // The server may have been restarted with a larger limit.
    if (const auto info = GetServerInfo(call); !info.ok()) return info.status();
    if (!FitsOneMessage(request_bytes)) return MergeTooLarge(request_bytes);
  }
  LentMemory lent;
  absl::StatusOr<grpc::ByteBuffer> response =
      CallUnary(kMerge, EncodeMergeRequest(inputs, lent), attempts);
  if (!response.ok()) {
    const bool limit_is_known = AskedForLimitAfter(attempts, request_bytes);
    if (limit_is_known && !FitsOneMessage(request_bytes)) return MergeTooLarge(request_bytes);
    return response.status();
  }
  return ReceiveMergeResponse(*response, internal::ResultBytesOf(inputs).value_or(ResultBytes{}));
}

absl::Status Client::MergeTooLarge(std::int64_t request_bytes) const {
  return absl::InvalidArgumentError(
      absl::StrCat("out and lse: ", request_bytes, " bytes, one message of at most ",
                   max_message_bytes_.load(), " accepted; merge fewer parts or rows at a time"));
}

absl::StatusOr<v1::GetServerInfoResponse> Client::GetServerInfo(const CallOptions& call) {
  Attempts attempts(options_.retry, absl::Now() + call.timeout);
  return AskForServerInfo(attempts);
}

bool Client::AskedForLimitAfter(const Attempts& attempts, std::int64_t sent_bytes) {
  if (FitsAnyLimit(sent_bytes) || !attempts.may_be_refused_by_size()) return false;
  Attempts once({.max_attempts = 1}, attempts.deadline());
  return AskForServerInfo(once).ok();
}

absl::StatusOr<v1::GetServerInfoResponse> Client::AskForServerInfo(Attempts& attempts) {
  absl::StatusOr<grpc::ByteBuffer> response =
      CallUnary(kGetServerInfo, grpc::ByteBuffer(nullptr, 0), attempts);
  if (!response.ok()) return response.status();
  v1::GetServerInfoResponse info;
  grpc::ProtoBufferReader reader(&*response);
  if (!info.ParseFromZeroCopyStream(&reader)) {
    return absl::InternalError("the server's GetServerInfoResponse is not well-formed");
  }
  max_message_bytes_ = info.max_message_bytes();
  return info;
}

absl::StatusOr<grpc::ByteBuffer> Client::CallUnary(const char* method,
                                                   const grpc::ByteBuffer& request,
                                                   Attempts& attempts) {
  grpc::ByteBuffer response;
  auto attempt = [&] {
    return internal::CallUnary(stub_, method, attempts.deadline(), request, response);
  };
  if (absl::Status status = attempts.Run(attempt); !status.ok()) return status;
  return response;
}

Client::Transfer Client::ChooseTransfer(CallKind kind, std::int64_t largest_bytes) const {
  const bool streamed =
      kind == CallKind::kStream || (kind == CallKind::kAutomatic && !FitsOneMessage(largest_bytes));
  if (!streamed) return {};
  return {.streamed = true,
          .chunk_bytes =
              std::min(options_.chunk_bytes,
                       std::max<std::int64_t>(max_message_bytes_ - kMessageOverheadBytes, 1))};
}

bool Client::FitsOneMessage(std::int64_t largest_bytes) const {
  // gRPC and Protocol Buffers cannot carry more than 2 GiB in a message, whatever the server says.
  const std::int64_t limit =
      std::min<std::int64_t>(max_message_bytes_, std::numeric_limits<std::int32_t>::max());
  return largest_bytes <= limit - kMessageOverheadBytes;
}

}  // namespace attnd
