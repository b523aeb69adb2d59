// The configuration file: attnd.config.v1.ServerConfig in protobuf text format.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "attnd/config/v1/server_config.pb.h"

namespace attnd {

// What the file says; settings it does not name stay unset. InvalidArgument, naming file, line and
// setting, if it cannot be read, is not in text format, or has a value that its setting does not
// accept.
absl::StatusOr<config::v1::ServerConfig> ReadConfigFile(const std::string& path);

// `config` as such a file, every setting spelled out, those left at their defaults too.
std::string ConfigFileText(const config::v1::ServerConfig& config);

}  // namespace attnd
