#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "attnd/v1/attention.pb.h"
#include "kernels/attention_shape.h"
#include "kernels/kernel_registry.h"
#include "server/engine/attention_plan.h"
#include "server/rpc/attend_messages.h"
#include "server/rpc/request_validator.h"
#include "server/rpc/tensor_bytes.h"
#include "tests/fuzz/exact_memory.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace attnd::fuzz {
namespace {

// Problems beyond these are checked, not computed.
constexpr double kMaxFlops = 2e6;
constexpr std::int64_t kMaxBytes = 1 << 20;

std::vector<grpc::Slice> Cut(const std::string& message, std::size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (std::size_t begin = 0; begin < message.size(); begin += slice_bytes) {
    slices.emplace_back(message.substr(begin, slice_bytes));
  }
  return slices;
}

// Protobuf itself must read the same tensors out of whatever both accept.
void CompareWithProtobuf(const std::string& message, const AttendRequestView& view) {
  v1::AttendRequest request;
  if (!request.ParseFromString(message)) return;
  const std::string* const tensors[] = {&request.q(), &request.k(), &request.v(), &request.mask(),
                                        &request.bias()};
  for (int i = 0; i < kNumInputTensors; ++i)
    CheckInvariant(view.tensors[i].ToString() == *tensors[i], "tensor bytes");
  CheckInvariant(request.spec().SerializeAsString() == view.spec.SerializeAsString(), "spec");
}

InputTensorBytes SizesOf(const AttendRequestView& view) {
  InputTensorBytes sizes;
  for (int i = 0; i < kNumInputTensors; ++i)
    sizes[i] = static_cast<std::int64_t>(view.tensors[i].size());
  return sizes;
}

bool IsSmall(const AttentionPlan& plan) {
  const AttentionParams& p = plan.problem.params;
  return std::max({plan.input_bytes, plan.output_bytes, plan.workspace_bytes}) <= kMaxBytes &&
         AttentionFlops(p) <= kMaxFlops && p.batch_size * p.num_heads <= 4096;
}

void Compute(const AttentionPlan& plan, const AttendRequestView& view) {
  ExactMemory memory(plan, view);
  ExecutionContext context;
  context.workspace = memory.workspace();
  context.workspace_bytes = plan.workspace_bytes;
  CheckInvariant(plan.kernel->run(memory.params(), context).ok(), "a planned problem runs");
}

}  // namespace

void FuzzAttendRequest(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return;
  const std::string message(reinterpret_cast<const char*>(data + 1), size - 1);
  const std::vector<grpc::Slice> slices = Cut(message, 1 + data[0]);
  const absl::StatusOr<AttendRequestView> view = ReadAttendRequest(WireBytesView(slices));
  if (!view.ok()) return;
  CompareWithProtobuf(message, *view);

  absl::StatusOr<AttentionProblem> problem = ProblemFromSpec(view->spec, RequestLimits());
  if (!problem.ok()) return;
  const bool fits = CheckTensorBytes(*problem, SizesOf(*view)).ok();
  const absl::StatusOr<AttentionPlan> plan = MakeAttentionPlan(*std::move(problem), DeviceTraits());
  if (!plan.ok() || !fits) return;
  for (int i = 0; i < kNumInputTensors; ++i) {
    CheckInvariant(plan->inputs[i].size_bytes == SizesOf(*view)[i],
                   "the plan's sizes are the validator's");
  }
  if (IsSmall(*plan)) Compute(*plan, *view);
}

}  // namespace attnd::fuzz
