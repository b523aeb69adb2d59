// The C ABI. Every function that can fail runs inside Guard: no exception leaves, and the words of
// the failure are kept for attnd_last_error.
#include <algorithm>
#include <cstdint>
#include <exception>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/attnd_kernels.h"
#include "kernels/c_api_structs.h"
#include "kernels/sequence_lengths.h"
#include "kernels/status_macros.h"

namespace attnd {
namespace {

constexpr std::size_t kMaxErrorBytes = 1024;
constexpr std::uintptr_t kWorkspaceAlignment = 256;

// A fixed array, so that keeping the words cannot fail.
thread_local char last_error[kMaxErrorBytes] = "";

std::int32_t Keep(absl::StatusCode code, absl::string_view message) {
  const std::size_t size = std::min(message.size(), kMaxErrorBytes - 1);
  std::copy_n(message.data(), size, last_error);
  last_error[size] = '\0';
  return static_cast<std::int32_t>(code);
}

template <typename Function>
std::int32_t Guard(Function function) noexcept {
  try {
    const absl::Status status = function();
    return Keep(status.code(), status.message());
  } catch (const std::bad_alloc&) {
    return Keep(absl::StatusCode::kResourceExhausted, "out of host memory");
  } catch (const std::exception& exception) {
    return Keep(absl::StatusCode::kInternal, exception.what());
  } catch (...) {
    return Keep(absl::StatusCode::kInternal, "unknown exception");
  }
}

absl::StatusOr<const KernelImplementation*> Select(const AttentionParams& p,
                                                   const DeviceTraits& device,
                                                   const char* algorithm) {
  return SelectKernel(p, device, algorithm != nullptr ? algorithm : "");
}

absl::Status CheckWorkspace(const ExecutionContext& context, std::int64_t needed) {
  if (context.workspace_bytes < needed) {
    return absl::InvalidArgumentError(absl::StrCat("workspace_bytes: ", context.workspace_bytes,
                                                   "; at least ", needed, " is accepted"));
  }
  if (needed > 0 && context.workspace == nullptr) {
    return absl::InvalidArgumentError("workspace: NULL");
  }
  if (reinterpret_cast<std::uintptr_t>(context.workspace) % kWorkspaceAlignment != 0) {
    return absl::InvalidArgumentError("workspace: not aligned to 256 bytes");
  }
  return absl::OkStatus();
}

absl::Status Workspace(const attnd_attention_params* params, const attnd_execution* execution,
                       std::int64_t* bytes) {
  if (bytes == nullptr) return absl::InvalidArgumentError("bytes: NULL");
  ASSIGN_OR_RETURN(const attnd_attention_params c_params, ReadStruct(params));
  ASSIGN_OR_RETURN(const attnd_execution c_execution, ReadStruct(execution));
  ASSIGN_OR_RETURN(const AttentionParams p, ToAttentionParams(c_params));
  ASSIGN_OR_RETURN(const ExecutionContext context, ToExecutionContext(c_execution, nullptr));
  ASSIGN_OR_RETURN(const KernelImplementation* const kernel,
                   Select(p, context.device, c_execution.algorithm));
  *bytes = kernel->workspace_bytes(p, context.device);
  return absl::OkStatus();
}

absl::Status Attend(const attnd_attention_params* params, const attnd_execution* execution) {
  ASSIGN_OR_RETURN(const attnd_attention_params c_params, ReadStruct(params));
  ASSIGN_OR_RETURN(const attnd_execution c_execution, ReadStruct(execution));
  ASSIGN_OR_RETURN(const AttentionParams p, ToAttentionParams(c_params));
  CallerParallelFor parallel_for(c_execution.parallel_for, c_execution.parallel_for_context);
  ASSIGN_OR_RETURN(const ExecutionContext context, ToExecutionContext(c_execution, &parallel_for));
  ASSIGN_OR_RETURN(const KernelImplementation* const kernel,
                   Select(p, context.device, c_execution.algorithm));
  RETURN_IF_ERROR(CheckWorkspace(context, kernel->workspace_bytes(p, context.device)));
  if (context.device.backend == Backend::kCpu) RETURN_IF_ERROR(ValidateHostLengths(p));
  return kernel->run(p, context);
}

absl::Status Merge(const attnd_merge_params* params, const attnd_execution* execution) {
  ASSIGN_OR_RETURN(const attnd_merge_params c_params, ReadStruct(params));
  ASSIGN_OR_RETURN(const attnd_execution c_execution, ReadStruct(execution));
  ASSIGN_OR_RETURN(const MergeParams p, ToMergeParams(c_params));
  CallerParallelFor parallel_for(c_execution.parallel_for, c_execution.parallel_for_context);
  ASSIGN_OR_RETURN(const ExecutionContext context, ToExecutionContext(c_execution, &parallel_for));
  return RunMerge(p, context);
}

absl::Status KernelAt(std::int64_t backend, std::int64_t index, attnd_kernel_info* info) {
  RETURN_IF_ERROR(CheckStruct(info));
  ASSIGN_OR_RETURN(const Backend checked_backend, ToBackend(backend));
  const auto kernels = ImplementationsFor(checked_backend);
  if (index < 0 || index >= static_cast<std::int64_t>(kernels.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("index: ", index, "; there are ", kernels.size(), " kernels"));
  }
  // Both are string literals, hence terminated.
  info->algorithm = kernels[index].algorithm.data();
  info->name = kernels[index].name.data();
  return absl::OkStatus();
}

}  // namespace
}  // namespace attnd

extern "C" {

int32_t attnd_attention_workspace(const attnd_attention_params* params,
                                  const attnd_execution* execution, int64_t* bytes) {
  return attnd::Guard([&] { return attnd::Workspace(params, execution, bytes); });
}

int32_t attnd_attention(const attnd_attention_params* params, const attnd_execution* execution) {
  return attnd::Guard([&] { return attnd::Attend(params, execution); });
}

int32_t attnd_merge(const attnd_merge_params* params, const attnd_execution* execution) {
  return attnd::Guard([&] { return attnd::Merge(params, execution); });
}

int64_t attnd_kernel_count(int64_t backend) {
  if (backend != ATTND_CPU && backend != ATTND_CUDA) return 0;
  return static_cast<int64_t>(
      attnd::ImplementationsFor(static_cast<attnd::Backend>(backend)).size());
}

int32_t attnd_kernel_at(int64_t backend, int64_t index, attnd_kernel_info* info) {
  return attnd::Guard([&] { return attnd::KernelAt(backend, index, info); });
}

const char* attnd_version(void) { return ATTND_VERSION; }

const char* attnd_last_error(void) { return attnd::last_error; }

}  // extern "C"
