#include "server/rpc/attend_call.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/status_macros.h"
#include "server/engine/exceptions.h"
#include "server/rpc/error_details.h"
#include "server/rpc/request_validator.h"
#include "server/rpc/sent_job.h"
#include "server/rpc/server_timing.h"
#include "server/rpc/tensor_bytes.h"

namespace attnd {
namespace {

InputTensorBytes SizesOf(const AttendRequestView& request) {
  InputTensorBytes sizes;
  for (int i = 0; i < kNumInputTensors; ++i)
    sizes[i] = static_cast<std::int64_t>(request.tensors[i].size());
  return sizes;
}

absl::Status CheckResultFits(const AttentionPlan& plan, std::int64_t max_message_bytes) {
  std::int64_t bytes = 0;
  for (const Extent& output : plan.outputs) bytes += output.size_bytes;
  if (bytes <= max_message_bytes) return absl::OkStatus();
  return FieldError("spec", absl::StrCat("asks for results of ", bytes,
                                         " bytes, accepted in one message: at most ",
                                         max_message_bytes, "; AttendStream has no such limit"));
}

}  // namespace

AttendCall::AttendCall(RpcState* state, grpc::CallbackServerContext* context,
                       grpc::ByteBuffer* request, grpc::ByteBuffer* response)
    : state_(state),
      context_(context),
      request_(request),
      response_(response),
      watch_(Method::kAttend, context, state->metrics) {}

void AttendCall::Start() {
  absl::StatusOr<AttentionPlan> plan = WithoutExceptions([this] { return ReadRequest(); });
  if (!plan.ok()) return End(watch_.Refused(plan.status()));
  state_->engine->Admit(
      *std::move(plan), watch_.control(),
      [this](absl::StatusOr<std::unique_ptr<AttentionJob>> job) { OnAdmitted(std::move(job)); });
}

absl::StatusOr<AttentionPlan> AttendCall::ReadRequest() {
  const auto request_bytes = static_cast<std::int64_t>(request_->Length());
  watch_.CountBytes(Direction::kIn, request_bytes);
  RETURN_IF_ERROR(CheckMessageSize(request_bytes, state_->options));
  ASSIGN_OR_RETURN(waiting_, TakeWaiting(*state_, request_bytes));
  ASSIGN_OR_RETURN(message_, ReceivedMessage::Take(request_));
  ASSIGN_OR_RETURN(view_, ReadAttendRequest(message_.bytes()));
  ASSIGN_OR_RETURN(AttentionProblem problem, ProblemFromSpec(view_.spec, state_->options.limits));
  RETURN_IF_ERROR(CheckTensorBytes(problem, SizesOf(view_)));
  ASSIGN_OR_RETURN(AttentionPlan plan,
                   MakeAttentionPlan(std::move(problem), state_->engine->device().info().traits));
  RETURN_IF_ERROR(CheckResultFits(plan, state_->options.max_message_bytes));
  return plan;
}

void AttendCall::OnAdmitted(absl::StatusOr<std::unique_ptr<AttentionJob>> job) {
  if (!job.ok()) return End(BlamedOn("spec", job.status()));
  if (std::this_thread::get_id() == starting_thread_) return CopyAndSubmit(*std::move(job));
  // The engine admits those who wait on one thread; a copy there would hold up the others.
  state_->copies.Add(
      [this, held = job->release()] { CopyAndSubmit(std::unique_ptr<AttentionJob>(held)); });
}

void AttendCall::CopyAndSubmit(std::unique_ptr<AttentionJob> job) {
  const absl::Time start = absl::Now();
  for (int i = 0; i < kNumInputTensors; ++i) {
    view_.tensors[i].CopyTo(job->input(static_cast<InputTensor>(i)).data());
  }
  // The copy is all that is needed of the request; its slices pin far more memory than they hold.
  view_ = {};
  message_ = {};
  waiting_.Reset();
  copy_seconds_ = absl::ToDoubleSeconds(absl::Now() - start);
  state_->engine->Submit(
      std::move(job), watch_.control(),
      [this](absl::StatusOr<std::unique_ptr<AttentionJob>> done) { OnComputed(std::move(done)); });
}

void AttendCall::OnComputed(absl::StatusOr<std::unique_ptr<AttentionJob>> job) {
  if (!job.ok()) return End(job.status());
  const v1::AttendResult result = MakeAttendResult(**job, copy_seconds_, watch_.seconds());
  AddServerTiming(context_, result.timings());
  *response_ = WriteAttendResponse(result, ShareForSending(*std::move(job), &state_->sending));
  const auto response_bytes = static_cast<std::int64_t>(response_->Length());
  watch_.CountBytes(Direction::kOut, response_bytes);
  send_timer_.Start(Method::kAttend, context_, response_bytes, state_->options);
  End(absl::OkStatus());
}

void AttendCall::End(const absl::Status& status) {
  // gRPC may delete this call on another thread as soon as it is finished.
  Finish(watch_.Finish(status));
}

}  // namespace attnd
