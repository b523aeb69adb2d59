#include "server/rpc/error_details.h"

#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
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

}  // namespace

absl::Status FieldError(absl::string_view field, absl::string_view problem) {
  absl::Status status = absl::InvalidArgumentError(absl::StrCat(field, ": ", problem));
  status.SetPayload(kBadRequestUrl, absl::Cord(EncodeBadRequest(field, problem)));
  return status;
}

absl::Status BlamedOn(absl::string_view field, const absl::Status& status) {
  return absl::IsInvalidArgument(status) ? FieldError(field, status.message()) : status;
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
