#include "tests/gpu/cuda_runner.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "kernels/attention_shape.h"
#include "kernels/status_macros.h"
#include "tests/gpu/device_memory.h"

namespace attnd::testing {
namespace {

constexpr std::int64_t kGuardBytes = 4096;

// Device memory for a kernel's workspace between two guards.
class GuardedWorkspace {
 public:
  static absl::StatusOr<GuardedWorkspace> Create(std::int64_t size_bytes) {
    ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Create(size_bytes + 2 * kGuardBytes));
    RETURN_IF_ERROR(memory.Fill(Arena::kPoison));
    return GuardedWorkspace(std::move(memory));
  }

  void* data() const { return memory_.data() + kGuardBytes; }

  absl::Status CheckGuards() const {
    std::vector<std::byte> bytes(memory_.size_bytes());
    RETURN_IF_ERROR(memory_.CopyTo(bytes.data()));
    const auto poisoned = [](std::byte byte) { return byte == Arena::kPoison; };
    if (std::all_of(bytes.begin(), bytes.begin() + kGuardBytes, poisoned) &&
        std::all_of(bytes.end() - kGuardBytes, bytes.end(), poisoned))
      return absl::OkStatus();
    return absl::InternalError("bytes beside the workspace were written");
  }

 private:
  explicit GuardedWorkspace(DeviceMemory memory) : memory_(std::move(memory)) {}

  DeviceMemory memory_;
};

class CudaRunner : public KernelRunner {
 public:
  CudaRunner(std::string name, const KernelImplementation& kernel, const DeviceTraits& device)
      : name_(std::move(name)), kernel_(kernel), device_(device) {}

  std::string name() const override { return name_; }

  absl::Status Supports(const AttentionParams& p) const override {
    return kernel_.supports(p, device_);
  }

  absl::Status Run(Problem& problem) override {
    Arena& outputs = problem.outputs();
    ASSIGN_OR_RETURN(DeviceMemory device_inputs,
                     DeviceMemory::Create(problem.inputs().size_bytes()));
    ASSIGN_OR_RETURN(DeviceMemory device_outputs, DeviceMemory::Create(outputs.size_bytes()));
    RETURN_IF_ERROR(device_inputs.CopyFrom(problem.inputs().data()));
    RETURN_IF_ERROR(device_outputs.CopyFrom(outputs.data()));
    const AttentionParams p = problem.ParamsAt(device_inputs.data(), device_outputs.data());
    RETURN_IF_ERROR(ValidateShape(p));
    RETURN_IF_ERROR(Supports(p));
    ExecutionContext context;
    context.device = device_;
    context.workspace_bytes = kernel_.workspace_bytes(p, device_);
    ASSIGN_OR_RETURN(GuardedWorkspace workspace, GuardedWorkspace::Create(context.workspace_bytes));
    context.workspace = workspace.data();
    RETURN_IF_ERROR(kernel_.run(p, context));
    RETURN_IF_ERROR(SynchronizeDevice());
    RETURN_IF_ERROR(workspace.CheckGuards());
    return device_outputs.CopyTo(outputs.data());
  }

  absl::Status RunDiagnostics(Problem& problem, AttentionDiagnostics* report) override {
    ASSIGN_OR_RETURN(DeviceMemory inputs, DeviceMemory::Create(problem.inputs().size_bytes()));
    ASSIGN_OR_RETURN(DeviceMemory outputs, DeviceMemory::Create(problem.outputs().size_bytes()));
    ASSIGN_OR_RETURN(DeviceMemory result, DeviceMemory::Create(sizeof(AttentionDiagnostics)));
    RETURN_IF_ERROR(inputs.CopyFrom(problem.inputs().data()));
    RETURN_IF_ERROR(outputs.CopyFrom(problem.outputs().data()));
    const AttentionParams p = problem.ParamsAt(inputs.data(), outputs.data());
    ExecutionContext context;
    context.device = device_;
    context.workspace_bytes = DiagnosticsWorkspaceBytes(p, device_);
    ASSIGN_OR_RETURN(GuardedWorkspace workspace, GuardedWorkspace::Create(context.workspace_bytes));
    context.workspace = workspace.data();
    RETURN_IF_ERROR(
        attnd::RunDiagnostics(p, context, reinterpret_cast<AttentionDiagnostics*>(result.data())));
    RETURN_IF_ERROR(SynchronizeDevice());
    RETURN_IF_ERROR(workspace.CheckGuards());
    return result.CopyTo(reinterpret_cast<std::byte*>(report));
  }

  absl::Status RunMerge(const MergeParams& p) override {
    const std::int64_t lse_bytes = p.rows * static_cast<std::int64_t>(sizeof(float));
    MergeParams on_device = p;
    ASSIGN_OR_RETURN(DeviceMemory out_parts, DeviceMemory::Create(p.num_parts * p.dim * lse_bytes));
    ASSIGN_OR_RETURN(DeviceMemory lse_parts, DeviceMemory::Create(p.num_parts * lse_bytes));
    ASSIGN_OR_RETURN(DeviceMemory out, DeviceMemory::Create(p.rows * p.dim * SizeOf(p.out_dtype)));
    ASSIGN_OR_RETURN(DeviceMemory lse, DeviceMemory::Create(lse_bytes));
    RETURN_IF_ERROR(out_parts.CopyFrom(reinterpret_cast<const std::byte*>(p.out_parts)));
    RETURN_IF_ERROR(lse_parts.CopyFrom(reinterpret_cast<const std::byte*>(p.lse_parts)));
    on_device.out_parts = reinterpret_cast<const float*>(out_parts.data());
    on_device.lse_parts = reinterpret_cast<const float*>(lse_parts.data());
    on_device.out = out.data();
    on_device.lse = p.lse == nullptr ? nullptr : reinterpret_cast<float*>(lse.data());
    ExecutionContext context;
    context.device = device_;
    RETURN_IF_ERROR(attnd::RunMerge(on_device, context));
    RETURN_IF_ERROR(SynchronizeDevice());
    if (p.lse != nullptr) RETURN_IF_ERROR(lse.CopyTo(reinterpret_cast<std::byte*>(p.lse)));
    return out.CopyTo(static_cast<std::byte*>(p.out));
  }

 private:
  const std::string name_;
  const KernelImplementation kernel_;
  const DeviceTraits device_;
};

}  // namespace

std::unique_ptr<KernelRunner> MakeCudaRunner(std::string name, const KernelImplementation& kernel,
                                             const DeviceTraits& device) {
  return std::make_unique<CudaRunner>(std::move(name), kernel, device);
}

std::unique_ptr<KernelRunner> MakeCudaRunner(const KernelImplementation& kernel,
                                             const DeviceTraits& device) {
  return MakeCudaRunner(std::string(kernel.name), kernel, device);
}

}  // namespace attnd::testing
