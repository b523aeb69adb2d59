#include "server/grpc_log.h"

#include "grpc/support/log.h"
#include "server/telemetry/log.h"

namespace attnd {

void RouteGrpcLog() {
  gpr_set_log_function([](gpr_log_func_args* line) {
    const bool is_error = line->severity == GPR_LOG_SEVERITY_ERROR;
    Log(is_error ? spdlog::level::warn : spdlog::level::debug, "grpc", {{"text", line->message}});
  });
}

}  // namespace attnd
