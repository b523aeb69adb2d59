#include "client/attnctl/command.h"

#include <algorithm>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace attnd::attnctl {

std::optional<ExitCode> ParseArguments(FlagSet& flags, Arguments arguments) {
  if (absl::Status status = flags.Parse(arguments); !status.ok()) return UsageError(status);
  if (!flags.help_wanted()) return std::nullopt;
  std::cout << flags.Help();
  return kSuccess;
}

ExitCode UsageError(const absl::Status& status) {
  std::cerr << "attnctl: " << status.message() << " (--help lists what is accepted)\n";
  return kUsage;
}

ExitCode Failure(const absl::Status& status) {
  std::cerr << "attnctl: " << absl::StatusCodeToString(status.code()) << ": " << status.message()
            << "\n";
  return kFailed;
}

void ServerFlags::AddTo(FlagSet& flags) {
  flags.Add("server", "TARGET", "where the server is (default localhost:8001)", &target);
  flags.Add("timeout", "TIME", "deadline of each call, such as 500ms (default 60s)", &timeout);
  flags.Add("call", "KIND", "unary, stream, or auto: by size (default auto)", &call_kind);
}

absl::StatusOr<CallOptions> ServerFlags::ToCallOptions() const {
  CallOptions options{.timeout = timeout};
  if (call_kind == "unary") {
    options.kind = CallKind::kUnary;
  } else if (call_kind == "stream") {
    options.kind = CallKind::kStream;
  } else if (call_kind != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--call: \"", call_kind, "\" is not unary, stream or auto"));
  }
  return options;
}

absl::StatusOr<std::unique_ptr<Client>> ServerFlags::Connect() const {
  ClientOptions options;
  options.connect_timeout = std::min(timeout, options.connect_timeout);
  absl::StatusOr<std::unique_ptr<Client>> client = Client::Connect(target, options);
  if (client.ok()) return client;
  return absl::Status(client.status().code(),
                      absl::StrCat("server ", target, ": ", client.status().message()));
}

}  // namespace attnd::attnctl
