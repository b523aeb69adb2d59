#include "client/cpp/status_details.h"

#include <google/protobuf/any.pb.h>
#include <google/protobuf/duration.pb.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace attnd::internal {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr char kRetryInfoUrl[] = "type.googleapis.com/google.rpc.RetryInfo";
constexpr int kStatusDetailsField =
    3;  // repeated google.protobuf.Any details, in google.rpc.Status
constexpr int kRetryInfoRetryDelayField = 1;  // google.protobuf.Duration retry_delay

// The contents of every length-delimited field `number` of a serialized message, up to the first
// byte that does not parse.
std::vector<std::string> ReadFields(const std::string& message, int number) {
  CodedInputStream in(reinterpret_cast<const std::uint8_t*>(message.data()),
                      static_cast<int>(message.size()));
  std::vector<std::string> contents;
  const auto wanted = WireFormatLite::MakeTag(number, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  while (const std::uint32_t tag = in.ReadTag()) {
    if (tag != wanted) {
      if (!WireFormatLite::SkipField(&in, tag)) break;
      continue;
    }
    std::uint32_t size = 0;
    std::string field;
    if (!in.ReadVarint32(&size) || size > INT32_MAX || !in.ReadString(&field, size)) break;
    contents.push_back(std::move(field));
  }
  return contents;
}

std::optional<absl::Duration> RetryInfoDelay(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryInfoUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::vector<std::string> delays =
      ReadFields(std::string(*payload), kRetryInfoRetryDelayField);
  google::protobuf::Duration delay;
  if (delays.empty() || !delay.ParseFromString(delays.back())) return std::nullopt;
  const absl::Duration wait = absl::Seconds(delay.seconds()) + absl::Nanoseconds(delay.nanos());
  if (wait < absl::ZeroDuration()) return std::nullopt;
  return wait;
}

}  // namespace

absl::Status ToAbslStatus(const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  if (status.error_code() == grpc::StatusCode::CANCELLED) {
    return absl::UnavailableError(
        absl::StrCat("the server ended the call (CANCELLED: ", status.error_message(), ")"));
  }
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  for (const std::string& bytes : ReadFields(status.error_details(), kStatusDetailsField)) {
    google::protobuf::Any detail;
    if (!detail.ParseFromString(bytes)) continue;
    result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
  }
  return result;
}

RetryHint RetryHintOf(const absl::Status& status, const grpc::ClientContext& finished_call) {
  const auto& metadata = finished_call.GetServerTrailingMetadata();
  const auto pushback = metadata.find("grpc-retry-pushback-ms");
  if (pushback == metadata.end()) return {.forbidden = false, .delay = RetryInfoDelay(status)};
  std::int64_t milliseconds = 0;
  const absl::string_view text(pushback->second.data(), pushback->second.size());
  if (!absl::SimpleAtoi(text, &milliseconds) || milliseconds < 0) {
    return {.forbidden = true, .delay = std::nullopt};
  }
  return {.forbidden = false, .delay = absl::Milliseconds(milliseconds)};
}

}  // namespace attnd::internal
