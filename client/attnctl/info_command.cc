#include <google/protobuf/util/json_util.h>

#include <iostream>

#include "absl/strings/str_format.h"
#include "client/attnctl/command.h"
#include "client/attnctl/spec_flags.h"

namespace attnd::attnctl {
namespace {

void PrintLine(const char* name, const std::string& value) {
  std::cout << absl::StrFormat("%-20s %s\n", name, value);
}

std::string Mebibytes(std::int64_t bytes) {
  return absl::StrFormat("%.1f MiB", static_cast<double>(bytes) / 0x1p20);
}

void Print(const v1::GetServerInfoResponse& info) {
  PrintLine("version", info.version());
  PrintLine("backend", info.backend());
  PrintLine("device", info.device_name());
  if (info.compute_capability() != 0) {
    PrintLine("compute capability", absl::StrFormat("%d.%d", info.compute_capability() / 10,
                                                    info.compute_capability() % 10));
  }
  PrintLine("device memory", Mebibytes(info.device_memory_bytes()));
  PrintLine("staging memory", Mebibytes(info.staging_memory_bytes()));
  PrintLine("largest message", Mebibytes(info.max_message_bytes()));
  PrintLine("largest probs", Mebibytes(info.max_probs_bytes()));
  PrintLine("stream chunk", Mebibytes(info.stream_chunk_bytes()));
  for (const v1::KernelInfo& kernel : info.kernels()) {
    PrintLine("kernel", absl::StrFormat("%-24s %s", kernel.name(), NameOf(kernel.algorithm())));
  }
}

}  // namespace

ExitCode RunInfo(Arguments arguments) {
  ServerFlags server;
  bool json = false;
  FlagSet flags("info [flags]", "Prints what a server is, what it can compute and its limits.");
  server.AddTo(flags);
  flags.Add("json", "", "print as JSON", &json);
  if (const auto exit = ParseArguments(flags, arguments)) return *exit;
  const auto call = server.ToCallOptions();
  if (!call.ok()) return UsageError(call.status());

  const auto client = server.Connect();
  if (!client.ok()) return Failure(client.status());
  const auto info = (*client)->GetServerInfo(*call);
  if (!info.ok()) return Failure(info.status());
  if (!json) {
    Print(*info);
    return kSuccess;
  }
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  (void)google::protobuf::util::MessageToJsonString(*info, &text, options);
  std::cout << text;
  return kSuccess;
}

}  // namespace attnd::attnctl
