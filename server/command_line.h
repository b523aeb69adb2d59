// The command line: each setting of attnd.config.v1.ServerConfig is a flag, and a few flags beside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "attnd/config/v1/server_config.pb.h"

namespace attnd {

struct CommandLine {
  enum class Action : std::uint8_t { kServe, kPrintConfig, kPrintVersion, kPrintHelp };

  Action action = Action::kServe;
  config::v1::ServerConfig config = {};  // the file's settings, and over them those of the flags
};

// `args` are those after the program's name: --some-setting=VALUE or --some-setting VALUE; of a
// boolean --some-setting,
// --no-some-setting or --some-setting=true|false; --config FILE, --print-config, --version, --help.
// The last of several values counts. Reads the file. InvalidArgument, worded for the person who
// typed it, if anything is not accepted; --help wins over any error.
absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const std::string_view> args);

// Every flag with its default, a line each, by section.
std::string HelpText();

}  // namespace attnd
