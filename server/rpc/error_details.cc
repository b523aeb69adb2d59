#include "server/rpc/error_details.h"

#include <algorithm>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "server/rpc/wire_reader.h"
#include "server/rpc/wire_writer.h"

namespace attnd {
namespace {

// google.rpc.BadRequest{field_violations: {field, description}}.
std::string EncodeBadRequest(absl::string_view field, absl::string_view description) {
  WireWriter violation;
  violation.AddBytes(1, field);
  violation.AddBytes(2, description);
  WireWriter bad_request;
  bad_request.AddMessage(1, std::move(violation));
  return bad_request.TakeString();
}

// google.rpc.RetryInfo{retry_delay: google.protobuf.Duration{seconds, nanos}}.
std::string EncodeRetryInfo(absl::Duration delay) {
  const std::int64_t nanoseconds = std::max<std::int64_t>(absl::ToInt64Nanoseconds(delay), 0);
  WireWriter duration;
  duration.AddVarint(1, nanoseconds / 1'000'000'000);
  duration.AddVarint(2, nanoseconds % 1'000'000'000);
  WireWriter retry_info;
  retry_info.AddMessage(1, std::move(duration));
  return retry_info.TakeString();
}

// Field `number` of a message; an empty field if it has none.
WireField FindField(WireBytesView message, std::uint32_t number) {
  WireReader reader(message);
  WireField field;
  for (auto more = reader.Next(&field); more.ok() && *more; more = reader.Next(&field)) {
    if (field.number == number) return field;
  }
  return {};
}

}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view problem) {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
  status.SetPayload(kBadRequestUrl, absl::Cord(EncodeBadRequest(field, problem)));
  return status;
}

void SetRetryDelay(absl::Status& status, absl::Duration delay) {
  status.SetPayload(kRetryInfoUrl, absl::Cord(EncodeRetryInfo(delay)));
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kRetryInfoUrl);
  if (!payload.has_value()) return std::nullopt;
  const std::vector<grpc::Slice> slices = {grpc::Slice(std::string(*payload))};
  const WireBytesView duration = FindField(WireBytesView(slices), 1).bytes;
  return absl::Seconds(static_cast<std::int64_t>(FindField(duration, 1).value)) +
         absl::Nanoseconds(static_cast<std::int64_t>(FindField(duration, 2).value));
}

std::string EncodeRpcStatus(const absl::Status& status, absl::string_view message) {
  WireWriter rpc_status;
  rpc_status.AddVarint(1, static_cast<std::uint64_t>(status.code()));
  rpc_status.AddBytes(2, message);
  status.ForEachPayload([&](absl::string_view type_url, const absl::Cord& value) {
    WireWriter any;
    any.AddBytes(1, type_url);
    any.AddBytes(2, std::string(value));
    rpc_status.AddMessage(3, std::move(any));
  });
  return rpc_status.TakeString();
}

}  // namespace attnd
