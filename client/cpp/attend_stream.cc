#include "client/cpp/attend_stream.h"

#include <grpcpp/client_context.h>
#include <grpcpp/completion_queue.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "client/cpp/unary_call.h"
#include "client/cpp/wire_format.h"

namespace attnd::internal {
namespace {

constexpr char kMethod[] = "/attnd.v1.AttentionService/AttendStream";

// The messages of a request in the order they are sent: the header, then every tensor from its
// beginning.
class RequestMessages {
 public:
  RequestMessages(const StreamRequest& request, LentMemory& lent)
      : request_(request),
        lent_(lent),
        tensors_{{v1::TENSOR_ID_Q, request.inputs.q},
                 {v1::TENSOR_ID_K, request.inputs.k},
                 {v1::TENSOR_ID_V, request.inputs.v},
                 {v1::TENSOR_ID_MASK, request.inputs.mask},
                 {v1::TENSOR_ID_BIAS, request.inputs.bias}} {}

  grpc::ByteBuffer Header() const {
    MessageBuilder header(lent_);
    header.AddMessageField(v1::AttendStreamRequest::kHeaderFieldNumber, request_.spec);
    return header.Build();
  }

  // std::nullopt when all bytes have been handed out.
  std::optional<grpc::ByteBuffer> NextChunk() {
    while (next_ != std::end(tensors_) && offset_ == next_->bytes.size()) {
      ++next_;
      offset_ = 0;
    }
    if (next_ == std::end(tensors_)) return std::nullopt;
    const std::size_t size =
        std::min<std::size_t>(request_.chunk_bytes, next_->bytes.size() - offset_);
    grpc::ByteBuffer chunk =
        EncodeChunk(next_->id, offset_, next_->bytes.subspan(offset_, size), lent_);
    offset_ += size;
    return chunk;
  }

 private:
  struct Tensor {
    v1::TensorId id;
    std::span<const std::byte> bytes;
  };

  const StreamRequest& request_;
  LentMemory& lent_;
  Tensor tensors_[5];
  Tensor* next_ = tensors_;
  std::size_t offset_ = 0;
};

// A call in progress. The addresses of its members are the tags of its operations.
class StreamCall {
 public:
  StreamCall(grpc::GenericStub& stub, absl::Time deadline, const StreamRequest& request,
             LentMemory& lent, ResultReceiver& receiver)
      : messages_(request, lent), receiver_(receiver) {
    SetDeadline(context_, deadline);
    stream_ = stub.PrepareCall(&context_, kMethod, &queue_);
  }

  AttemptOutcome Run() {
    stream_->StartCall(&started_);
    Await();
    if (started_) {
      Read();
      Write(messages_.Header());
      while (reading_ || writing_) Await();
    }
    grpc::Status status;
    stream_->Finish(&status, &finished_);
    Await();
    queue_.Shutdown();
    Await();
    return Outcome(status);
  }

 private:
  // Waits for one operation and starts what follows it.
  void Await() {
    void* tag = nullptr;
    bool ok = false;
    if (!queue_.Next(&tag, &ok)) return;
    if (tag == &started_) started_ = ok;
    if (tag == &writing_) OnWritten(ok);
    if (tag == &reading_) OnRead(ok);
  }

  void Write(const grpc::ByteBuffer& message) {
    writing_ = true;
    stream_->Write(message, &writing_);
  }

  // A failed write and an ended read both mean that the call is over.
  void OnWritten(bool ok) {
    writing_ = false;
    if (!ok || !reading_ || writes_done_) return;
    if (const std::optional<grpc::ByteBuffer> chunk = messages_.NextChunk()) {
      Write(*chunk);
      return;
    }
    writes_done_ = true;
    writing_ = true;
    stream_->WritesDone(&writing_);
  }

  void Read() {
    reading_ = true;
    stream_->Read(&incoming_, &reading_);
  }

  void OnRead(bool ok) {
    reading_ = false;
    if (!ok) return;
    if (error_.ok()) error_ = Receive();
    if (!error_.ok()) context_.TryCancel();
    Read();
  }

  absl::Status Receive() {
    const auto parts = ParseStreamResponse(incoming_);
    if (!parts.ok()) return parts.status();
    if (!parts->result.has_value()) {
      return receiver_.Write(parts->tensor, parts->offset_bytes, parts->data, incoming_);
    }
    if (answer_began_) return absl::InternalError("the server sent a second result header");
    answer_began_ = true;
    return receiver_.Begin(*parts->result);
  }

  AttemptOutcome Outcome(const grpc::Status& status) const {
    AttemptOutcome outcome;
    outcome.status = error_.ok() ? ToAbslStatus(status) : error_;
    outcome.answer_began = answer_began_;
    if (!outcome.status.ok()) outcome.hint = RetryHintOf(outcome.status, context_);
    return outcome;
  }

  RequestMessages messages_;
  ResultReceiver& receiver_;
  grpc::ClientContext context_;
  grpc::CompletionQueue queue_;  // destroyed after the stream that uses it
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer incoming_;

  absl::Status error_;  // what is wrong with the answer, if anything
  bool started_ = false;
  bool writing_ = false;
  bool reading_ = false;
  bool finished_ = false;
  bool writes_done_ = false;
  bool answer_began_ = false;
};

}  // namespace

AttemptOutcome CallAttendStream(grpc::GenericStub& stub, absl::Time deadline,
                                const StreamRequest& request, LentMemory& lent,
                                ResultReceiver& receiver) {
  return StreamCall(stub, deadline, request, lent, receiver).Run();
}

}  // namespace attnd::internal
