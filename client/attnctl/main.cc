// attnctl: the command line of an attention server.
#include <malloc.h>

#include <algorithm>
#include <exception>
#include <iostream>
#include <new>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/attnctl/command.h"

namespace attnd::attnctl {
namespace {

struct Command {
  const char* name;
  const char* summary;
  ExitCode (*run)(Arguments);
};

constexpr Command kCommands[] = {
    {"info", "what a server is, what it can compute and its limits", RunInfo},
    {"attend", "attention over arrays in .npy files", RunAttend},
    {"verify", "compare a server's results with float64", RunVerify},
    {"bench", "load a server and tell where the time went", RunBench}};

std::string Help() {
  std::string help = "Usage: attnctl COMMAND [flags]\n\n";
  for (const Command& command : kCommands) {
    absl::StrAppendFormat(&help, "  %-8s %s\n", command.name, command.summary);
  }
  absl::StrAppend(
      &help,
      "\nattnctl COMMAND --help lists the flags of a command; attnctl --version prints the "
      "version.\n"
      "Exit codes: 0 success, 1 a failed call, file or verification, 2 a wrong command line.\n");
  return help;
}

ExitCode Run(Arguments arguments) {
  if (arguments.empty()) {
    std::cerr << Help();
    return kUsage;
  }
  const absl::string_view name = arguments.front();
  if (name == "--version") {
    std::cout << "attnctl " << ATTND_VERSION << "\n";
    return kSuccess;
  }
  if (name == "--help" || name == "-h" || name == "help") {
    std::cout << Help();
    return kSuccess;
  }
  for (const Command& command : kCommands) {
    if (name == command.name) return command.run(arguments.subspan(1));
  }
  return UsageError(absl::InvalidArgumentError(absl::StrCat("unknown command \"", name, "\"")));
}

}  // namespace
}  // namespace attnd::attnctl

int main(int argc, char** argv) {
  // Keeps glibc from handing pages back after every message, see attnd/client.h.
  mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
  try {
    return attnd::attnctl::Run({argv + std::min(argc, 1), argv + argc});
  } catch (const std::bad_alloc&) {
    std::cerr << "attnctl: out of memory\n";
  } catch (const std::exception& error) {
    std::cerr << "attnctl: " << error.what() << "\n";
  }
  return attnd::attnctl::kFailed;
}
