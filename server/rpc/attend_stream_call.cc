#include "server/rpc/attend_stream_call.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"
#include "server/engine/exceptions.h"
#include "server/rpc/error_details.h"
#include "server/rpc/request_validator.h"
#include "server/rpc/sent_job.h"
#include "server/rpc/server_timing.h"

namespace attnd {
namespace {

ChunkAssembler::Destinations DestinationsIn(AttentionJob& job) {
  ChunkAssembler::Destinations destinations;
  for (int i = 0; i < kNumInputTensors; ++i)
    destinations[i] = job.input(static_cast<InputTensor>(i));
  return destinations;
}

template <std::size_t n>
std::int64_t TotalBytes(const std::array<Extent, n>& tensors) {
  std::int64_t bytes = 0;
  for (const Extent& tensor : tensors) bytes += tensor.size_bytes;
  return bytes;
}

absl::Status CallerGone() { return absl::CancelledError("the caller has gone"); }

}  // namespace

AttendStreamCall* AttendStreamCall::Start(RpcState* state, grpc::CallbackServerContext* context) {
  std::shared_ptr<AttendStreamCall> call(new AttendStreamCall(state, context));
  call->self_ = call;
  call->idle_timer_ =
      IdleTimer::Start(state->options.stream_idle_timeout, [weak = std::weak_ptr(call)] {
        if (const std::shared_ptr<AttendStreamCall> locked = weak.lock()) locked->OnIdle();
      });
  call->StartRead(&call->incoming_);
  return call.get();
}

AttendStreamCall::AttendStreamCall(RpcState* state, grpc::CallbackServerContext* context)
    : state_(state), context_(context), watch_(Method::kAttendStream, context, state->metrics) {}

void AttendStreamCall::OnDone() {
  idle_timer_->Stop();
  // Another thread may still be on its way out of a method of this call; it holds a reference of
  // its own.
  std::exchange(self_, nullptr).reset();
}

void AttendStreamCall::OnReadDone(bool ok) {
  const auto keep = shared_from_this();
  idle_timer_->Touch();
  if (header_read_) {
    HandleChunk(ok);
  } else {
    header_read_ = true;
    HandleHeader(ok);
  }
}

// A read fails when the client has half-closed, and when the call is over.
absl::Status AttendStreamCall::WhyNothingCame(absl::Status half_closed) const {
  RETURN_IF_ERROR(watch_.Check());
  return context_->IsCancelled() ? CallerGone() : std::move(half_closed);
}

void AttendStreamCall::HandleHeader(bool ok) {
  absl::StatusOr<AttentionPlan> plan =
      ok ? WithoutExceptions([this] { return ReadHeader(); })
         : WhyNothingCame(FieldError("message", "there is none, accepted: a header, then chunks"));
  if (!plan.ok()) return End(watch_.Refused(plan.status()));
  {
    const std::lock_guard lock(mu_);
    if (phase_ != Phase::kHeader) return;
    phase_ = Phase::kAdmission;
  }
  state_->engine->Admit(*std::move(plan), watch_.control(), [keep = shared_from_this()](JobOr job) {
    keep->OnAdmitted(std::move(job));
  });
}

absl::StatusOr<ReceivedMessage> AttendStreamCall::TakeMessage() {
  const auto message_bytes = static_cast<std::int64_t>(incoming_.Length());
  watch_.CountBytes(Direction::kIn, message_bytes);
  RETURN_IF_ERROR(CheckMessageSize(message_bytes, state_->options));
  return ReceivedMessage::Take(&incoming_);
}

absl::StatusOr<AttentionPlan> AttendStreamCall::ReadHeader() {
  ASSIGN_OR_RETURN(const ReceivedMessage message, TakeMessage());
  ASSIGN_OR_RETURN(const AttendStreamRequestView request, ReadAttendStreamRequest(message.bytes()));
  const auto* const spec = std::get_if<v1::AttentionSpec>(&request);
  if (spec == nullptr) return FieldError("message", "is a chunk, accepted: the header first");
  ASSIGN_OR_RETURN(AttentionProblem problem, ProblemFromSpec(*spec, state_->options.limits));
  return MakeAttentionPlan(std::move(problem), state_->engine->device().info().traits);
}

void AttendStreamCall::OnAdmitted(JobOr job) {
  if (!job.ok()) return End(BlamedOn("header", job.status()));
  bool complete;
  {
    const std::lock_guard lock(mu_);
    job_ = *std::move(job);
    assembler_.emplace(DestinationsIn(*job_));
    complete = assembler_->complete();
    phase_ = complete ? Phase::kComputation : Phase::kChunks;
    ExpectBytes(TotalBytes(job_->plan().inputs));
    if (!complete) StartRead(&incoming_);
  }
  if (complete) Submit();
}

void AttendStreamCall::HandleChunk(bool ok) {
  absl::Status status;
  bool complete = false;
  {
    const std::lock_guard lock(mu_);
    if (phase_ != Phase::kChunks) return;
    status = ok ? ReadChunk() : WhyNothingCame(assembler_->MissingError());
    complete = assembler_->complete();
    if (status.ok() && !complete) StartRead(&incoming_);
    if (status.ok() && complete) phase_ = Phase::kComputation;
  }
  if (!status.ok()) return End(watch_.Refused(status));
  if (complete) Submit();
}

absl::Status AttendStreamCall::ReadChunk() {
  const absl::Time start = absl::Now();
  ASSIGN_OR_RETURN(const ReceivedMessage message, TakeMessage());
  ASSIGN_OR_RETURN(const AttendStreamRequestView request, ReadAttendStreamRequest(message.bytes()));
  const auto* const chunk = std::get_if<TensorChunkView>(&request);
  if (chunk == nullptr)
    return FieldError("message", "is a second header, accepted: chunks after the first");
  RETURN_IF_ERROR(assembler_->Add(*chunk));
  copy_seconds_ += absl::ToDoubleSeconds(absl::Now() - start);
  return absl::OkStatus();
}

void AttendStreamCall::Submit() {
  std::unique_ptr<AttentionJob> job;
  {
    const std::lock_guard lock(mu_);
    assembler_.reset();
    job = std::move(job_);
  }
  state_->engine->Submit(std::move(job), watch_.control(), [keep = shared_from_this()](JobOr done) {
    keep->OnComputed(std::move(done));
  });
}

void AttendStreamCall::OnComputed(JobOr job) {
  if (!job.ok()) return End(job.status());
  const std::lock_guard lock(mu_);
  const v1::AttendResult result = MakeAttendResult(**job, copy_seconds_, watch_.seconds());
  AddServerTiming(context_, result.timings());
  result_ = ShareForSending(*std::move(job), &state_->sending);
  phase_ = Phase::kResults;
  ExpectBytes(TotalBytes(result_->plan().outputs));
  outgoing_ = WriteStreamResult(result);
  StartWrite(&outgoing_);
}

void AttendStreamCall::OnWriteDone(bool ok) {
  const auto keep = shared_from_this();
  idle_timer_->Touch();
  watch_.CountBytes(Direction::kOut, static_cast<std::int64_t>(outgoing_.Length()));
  outgoing_.Clear();
  if (!ok) return End(WhyNotTaken());
  if (!WriteNextChunk()) End(absl::OkStatus());
}

absl::Status AttendStreamCall::WhyNotTaken() {
  {
    const std::lock_guard lock(mu_);
    RETURN_IF_ERROR(given_up_);
  }
  return WhyNothingCame(CallerGone());
}

bool AttendStreamCall::WriteNextChunk() {
  const std::lock_guard lock(mu_);
  for (; next_output_ < kNumOutputTensors; ++next_output_, next_offset_bytes_ = 0) {
    const auto tensor = static_cast<OutputTensor>(next_output_);
    const std::int64_t left =
        static_cast<std::int64_t>(result_->output(tensor).size()) - next_offset_bytes_;
    if (left == 0) continue;
    const std::int64_t size_bytes = std::min(left, state_->options.stream_chunk_bytes);
    outgoing_ = WriteStreamChunk(tensor, next_offset_bytes_, size_bytes, result_);
    next_offset_bytes_ += size_bytes;
    StartWrite(&outgoing_);
    return true;
  }
  return false;
}

void AttendStreamCall::ExpectBytes(std::int64_t bytes) {
  expected_bytes_ = bytes;
  transfer_limit_ = absl::Now() + TransferTime(bytes, state_->options);
  idle_timer_->SetLimit(transfer_limit_);
  idle_timer_->Touch();
}

absl::Status AttendStreamCall::WhyGivenUp() const {
  const RpcOptions& options = state_->options;
  const bool sending = phase_ == Phase::kResults;
  if (absl::Now() >= transfer_limit_) {
    // Of few bytes this may be what a client that stopped is told: their time is hardly longer than
    // the idle timeout.
    return absl::DeadlineExceededError(absl::StrCat(
        sending ? "the results were read" : "the tensors came", " too slowly, ",
        sending ? "the last of what was read " : "the last message ",
        absl::FormatDuration(absl::Trunc(idle_timer_->Quiet(), absl::Milliseconds(1))),
        " ago; accepted: ", expected_bytes_, " bytes in ",
        absl::FormatDuration(TransferTime(expected_bytes_, options)),
        " (stream_min_bytes_per_second is ", options.stream_min_bytes_per_second, ")"));
  }
  return absl::DeadlineExceededError(
      absl::StrCat(sending ? "no result was read for " : "no message came for ",
                   absl::FormatDuration(options.stream_idle_timeout), " (stream_idle_timeout)"));
}

void AttendStreamCall::OnIdle() {
  std::optional<Holdings> holdings;
  absl::Status status;
  {
    const std::lock_guard lock(mu_);
    // The phase may have changed since the timer looked.
    if (!idle_timer_->Expired()) return;
    status = WhyGivenUp();
    if (phase_ == Phase::kHeader || phase_ == Phase::kChunks) holdings = TakeHoldings();
    // A status would wait behind the message that the client does not take. This makes the write
    // fail, which ends the call.
    if (phase_ == Phase::kResults) {
      given_up_ = status;
      context_->TryCancel();
    }
  }
  if (holdings.has_value()) FinishWith(*std::move(holdings), status);
}

void AttendStreamCall::End(const absl::Status& status) {
  std::optional<Holdings> holdings;
  {
    const std::lock_guard lock(mu_);
    holdings = TakeHoldings();
  }
  if (holdings.has_value()) FinishWith(*std::move(holdings), status);
}

std::optional<AttendStreamCall::Holdings> AttendStreamCall::TakeHoldings() {
  if (phase_ == Phase::kFinished) return std::nullopt;
  phase_ = Phase::kFinished;
  assembler_.reset();
  return Holdings{std::move(job_), std::move(result_)};
}

void AttendStreamCall::FinishWith(Holdings holdings, const absl::Status& status) {
  idle_timer_->Stop();
  // Given back before the caller hears of it.
  holdings = {};
  Finish(watch_.Finish(status));
}

}  // namespace attnd
