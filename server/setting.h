// One setting of the server, known by its field in attnd.config.v1.ServerConfig: read from text,
// checked, described. Flags, file and help text all go through here, so that one schema decides
// what each accepts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "attnd/config/v1/server_config.pb.h"

namespace attnd {

using SettingField = google::protobuf::FieldDescriptor;

// "4GiB" -> 4294967296. A whole number, at most 2^63 - 1 bytes, and a unit: none or B, KiB, MiB,
// GiB, TiB (powers of 1024), kB, MB, GB, TB (powers of 1000). Else InvalidArgument.
absl::StatusOr<std::int64_t> ParseBytes(std::string_view text);

// "1m30s" -> 90 s. Finite and at least 0. Else InvalidArgument.
absl::StatusOr<absl::Duration> ParseDuration(std::string_view text);

// What `field` accepts, as "a whole number from 0 to 65535".
std::string DescribeAccepted(const SettingField& field);

// Sets `field` of `config` to what `text` says. InvalidArgument, naming text and what is accepted,
// if it does not accept it.
absl::Status SetFromText(const SettingField& field, std::string_view text,
                         config::v1::ServerConfig* config);

// Whether the value that `field` has in `config` is accepted. InvalidArgument as above.
absl::Status CheckSetting(const SettingField& field, const config::v1::ServerConfig& config);

// The value that `field` has in `config`, as SetFromText reads it.
std::string SettingText(const SettingField& field, const config::v1::ServerConfig& config);

}  // namespace attnd
