#include "server/port_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace attnd {

absl::Status WritePortFile(const std::string& path, int grpc_port, int http_port) {
  const std::string unfinished = path + ".new";
  const std::string text = absl::StrCat("grpc_port=", grpc_port, "\nhttp_port=", http_port, "\n");
  std::FILE* file = std::fopen(unfinished.c_str(), "w");
  bool written = file != nullptr && std::fputs(text.c_str(), file) >= 0;
  if (file != nullptr) written = std::fclose(file) == 0 && written;
  if (written && std::rename(unfinished.c_str(), path.c_str()) == 0) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("port_file: cannot write ", path, ": ", std::strerror(errno)));
}

absl::Status RemovePortFile(const std::string& path) {
  if (std::remove(path.c_str()) == 0 || errno == ENOENT) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("port_file: cannot remove ", path, ": ", std::strerror(errno)));
}

}  // namespace attnd
