// attnd: the attention server's daemon. Flags and file to ServerOptions, signals, exit code.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/command_line.h"
#include "server/config_file.h"
#include "server/exit_code.h"
#include "server/grpc_log.h"
#include "server/open_device.h"
#include "server/server.h"
#include "server/server_options.h"
#include "server/stop_signal.h"
#include "server/telemetry/log.h"
#include "server/version.h"

namespace attnd {
namespace {

// For the person at the terminal; the log's form is for what happens later.
ExitCode UsageError(const absl::Status& status) {
  std::fprintf(stderr, "attnd: %s\n", std::string(status.message()).c_str());
  return ExitCode::kUsage;
}

ExitCode StartError(const absl::Status& status, ExitCode code) {
  Log(spdlog::level::err, "cannot start", {{"error", std::string(status.message())}});
  return code;
}

// See malloc_trim_threshold_bytes in server_config.proto.
void TuneAllocator(const ServerOptions& options) {
#ifdef __GLIBC__
  if (options.malloc_trim_threshold_bytes > 0) {
    mallopt(M_TRIM_THRESHOLD, static_cast<int>(options.malloc_trim_threshold_bytes));
  }
#endif
}

// Leaves without destroying anything: work that hangs on the device would be waited for, and
// threads that still run may still log.
[[noreturn]] void ExitNow(ExitCode code) {
  std::fflush(nullptr);
  std::_Exit(static_cast<int>(code));
}

ExitCode Serve(const ServerOptions& options) {
  SetUpLogging(options.log);
  RouteGrpcLog();
  TuneAllocator(options);
  absl::StatusOr<StopSignal> stop = StopSignal::Create();
  if (!stop.ok()) return StartError(stop.status(), ExitCode::kFailure);
  absl::StatusOr<std::unique_ptr<Device>> device = OpenDevice(options);
  if (!device.ok()) {
    const bool for_good = absl::IsInvalidArgument(device.status());
    return StartError(device.status(), for_good ? ExitCode::kUsage : ExitCode::kDeviceUnusable);
  }
  absl::StatusOr<std::unique_ptr<Server>> server = Server::Create(options, *std::move(device));
  if (!server.ok()) {
    const bool refused = absl::IsResourceExhausted(server.status());
    return StartError(server.status(), refused ? ExitCode::kDeviceUnusable : ExitCode::kFailure);
  }
  const ExitCode code =
      (*server)->Run([&stop](absl::Duration timeout) { return stop->WaitFor(timeout); });
  if (code != ExitCode::kOk) ExitNow(code);
  return code;
}

ExitCode Main(const std::vector<std::string_view>& args) {
  const absl::StatusOr<CommandLine> line = ParseCommandLine(args);
  if (!line.ok()) return UsageError(line.status());
  if (line->action == CommandLine::Action::kPrintHelp) {
    std::fputs(HelpText().c_str(), stdout);
    return ExitCode::kOk;
  }
  if (line->action == CommandLine::Action::kPrintVersion) {
    std::printf("attnd %s\n", std::string(Version()).c_str());
    return ExitCode::kOk;
  }
  const absl::StatusOr<ServerOptions> options = ServerOptions::FromConfig(line->config);
  if (!options.ok()) return UsageError(options.status());
  if (line->action == CommandLine::Action::kPrintConfig) {
    std::fputs(ConfigFileText(line->config).c_str(), stdout);
    return ExitCode::kOk;
  }
  return Serve(*options);
}

}  // namespace
}  // namespace attnd

int main(int argc, char** argv) {
  return static_cast<int>(attnd::Main({argv + std::min(1, argc), argv + argc}));
}
