#include "client/attnctl/result_files.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/attnctl/host_problem.h"
#include "client/attnctl/npy_problem.h"

namespace attnd::attnctl {
namespace {

namespace fs = std::filesystem;

struct ResultFile {
  const char* flag;
  const std::string& path;
};

std::vector<ResultFile> FilesOf(const ResultPaths& paths) {
  std::vector<ResultFile> files;
  for (const ResultFile& file : {ResultFile{"--out", paths.out}, ResultFile{"--lse", paths.lse},
                                 ResultFile{"--probs", paths.probs}}) {
    if (!file.path.empty()) files.push_back(file);
  }
  return files;
}

// Without links, "." and ".."; as it is where that cannot be told.
fs::path Resolved(const std::string& path) {
  std::error_code error;
  const fs::path absolute = fs::absolute(path, error);
  const fs::path resolved = fs::weakly_canonical(absolute, error);
  return error ? absolute : resolved;
}

absl::Status SystemError(const std::string& path) { return absl::ErrnoToStatus(errno, path); }

absl::Status CheckWritable(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return absl::ErrnoToStatus(EISDIR, path);
  if (access(path.c_str(), F_OK) == 0) {
    return access(path.c_str(), W_OK) == 0 ? absl::OkStatus() : SystemError(path);
  }
  const fs::path folder = fs::absolute(path, error).parent_path();
  return access(folder.c_str(), W_OK | X_OK) == 0 ? absl::OkStatus() : SystemError(path);
}

}  // namespace

void ResultPaths::AddTo(FlagSet& flags) {
  flags.Add("out", "FILE", "where the result goes, .npy", &out);
  flags.Add("lse", "FILE", "where the log-sum-exp goes, .npy float32", &lse);
  flags.Add("probs", "FILE", "where the weights go, .npy float32 (small problems)", &probs);
}

absl::Status CheckDistinct(const ResultPaths& paths) {
  const std::vector<ResultFile> files = FilesOf(paths);
  for (std::size_t i = 0; i < files.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (Resolved(files[i].path) != Resolved(files[j].path)) continue;
      return absl::InvalidArgumentError(absl::StrCat(files[i].flag, ": \"", files[i].path,
                                                     "\" is the file of ", files[j].flag,
                                                     ", too; a file for each is accepted"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckWritable(const ResultPaths& paths) {
  for (const ResultFile& file : FilesOf(paths)) {
    if (absl::Status status = CheckWritable(file.path); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status SaveResult(const ResultPaths& paths, const v1::AttentionSpec& spec,
                        const AttendReply& reply) {
  std::string written;
  const auto save = [&written](const std::string& path, v1::DataType dtype,
                               const std::vector<std::int64_t>& shape,
                               std::span<const std::byte> bytes) {
    if (path.empty()) return absl::OkStatus();
    absl::Status status = SaveTensor(path, dtype, shape, bytes);
    if (!status.ok() && !written.empty()) {
      return absl::Status(status.code(), absl::StrCat(status.message(), "; written:", written));
    }
    absl::StrAppend(&written, " ", path);
    return status;
  };
  absl::Status status =
      save(paths.out, reply.result.out_dtype(), OutShape(spec), reply.out.bytes());
  if (!status.ok()) return status;
  status = save(paths.lse, v1::DATA_TYPE_FLOAT32, LseShape(spec), reply.lse.bytes());
  if (!status.ok()) return status;
  return save(paths.probs, v1::DATA_TYPE_FLOAT32, ProbsShape(spec), reply.probs.bytes());
}

}  // namespace attnd::attnctl
