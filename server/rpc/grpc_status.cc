#include "server/rpc/grpc_status.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/engine/retry_info.h"
#include "server/rpc/error_details.h"
#include "spdlog/spdlog.h"

namespace attnd {
namespace {

// Status, message and details travel as HTTP/2 headers, of which peers accept 8 KiB in all by
// default.
constexpr std::size_t kMaxMessageBytes = 1024;

bool IsServerError(const absl::Status& status) {
  return status.code() == absl::StatusCode::kInternal ||
         status.code() == absl::StatusCode::kUnknown ||
         status.code() == absl::StatusCode::kDataLoss;
}

// "memory_pool.cc:42", alone or with what surrounds it in a word.
bool IsSourceLocation(absl::string_view word) {
  for (const absl::string_view suffix : {".cc:", ".cu:", ".cuh:", ".h:"}) {
    const std::size_t at = word.find(suffix);
    if (at == absl::string_view::npos) continue;
    const absl::string_view line = word.substr(at + suffix.size());
    if (!line.empty() && absl::ascii_isdigit(line.front())) return true;
  }
  return false;
}

// Where this server's sources lie is of no use to a caller, but is to an attacker.
std::string WithoutSourceLocations(absl::string_view text) {
  std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  words.erase(std::remove_if(words.begin(), words.end(), IsSourceLocation), words.end());
  return absl::StrJoin(words, " ");
}

std::string ReplyMessage(const absl::Status& status) {
  std::string message(status.message());
  // A device that has failed refuses with the words of its error.
  if (IsServerError(status) || absl::IsUnavailable(status))
    message = WithoutSourceLocations(message);
  if (message.size() > kMaxMessageBytes) message = message.substr(0, kMaxMessageBytes - 3) + "...";
  return message;
}

}  // namespace

grpc::Status ToGrpcStatus(const absl::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = ReplyMessage(status);
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), message,
                      EncodeRpcStatus(status, message));
}

grpc::Status FinishStatus(const absl::Status& status, grpc::ServerContextBase* context) {
  if (IsServerError(status)) spdlog::error("call failed: {}", std::string(status.message()));
  if (const std::optional<absl::Duration> delay = RetryDelayOf(status)) {
    context->AddTrailingMetadata(kRetryPushbackKey,
                                 absl::StrCat(absl::ToInt64Milliseconds(*delay)));
  }
  return ToGrpcStatus(status);
}

}  // namespace attnd
