// What the commands of attnctl have in common: exit codes, flags of the connection, messages.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attnd/client.h"
#include "client/attnctl/flag_set.h"

namespace attnd::attnctl {

enum ExitCode : int {
  kSuccess = 0,
  kFailed = 1,  // a call, a file or a verification failed
  kUsage = 2,   // the command line is wrong
};

using Arguments = std::span<const char* const>;

// The commands. Results go to standard output, all else to standard error. `arguments` follow the
// command's name.
ExitCode RunInfo(Arguments arguments);
ExitCode RunAttend(Arguments arguments);
ExitCode RunVerify(Arguments arguments);
ExitCode RunBench(Arguments arguments);

// Parses, and prints the help or what is wrong. std::nullopt: go on.
std::optional<ExitCode> ParseArguments(FlagSet& flags, Arguments arguments);
ExitCode UsageError(const absl::Status& status);
ExitCode Failure(const absl::Status& status);

// Where the server is, and how to call it.
struct ServerFlags {
  std::string target = "localhost:8001";
  absl::Duration timeout = absl::Seconds(60);
  std::string call_kind = "auto";

  void AddTo(FlagSet& flags);
  // InvalidArgument for an unknown kind of call.
  absl::StatusOr<CallOptions> ToCallOptions() const;
  absl::StatusOr<std::unique_ptr<Client>> Connect() const;
};

}  // namespace attnd::attnctl
