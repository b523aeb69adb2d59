// NumPy's .npy files, versions 1 to 3:
// https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace attnd::attnctl {

// An array in C order, little-endian.
struct NpyArray {
  std::string descr;  // as in the file: "<f4", "<f2", "|b1", "<u2", "|V2", ...
  std::vector<std::int64_t> shape;
  std::vector<std::byte> data;
};

// The contents of a file. InvalidArgument for what is not a .npy file or is damaged: the data must
// have exactly the size that the header says; also for arrays in Fortran order, big-endian, of
// structures or of objects.
absl::StatusOr<NpyArray> ParseNpy(absl::string_view file);

// Reads a file. Also the code of the system's error, with its words.
absl::StatusOr<NpyArray> ReadNpy(const std::string& path);

// Writes version 1. Replaces the file. The code of the system's error, with its words.
absl::Status WriteNpy(const std::string& path, absl::string_view descr,
                      const std::vector<std::int64_t>& shape, std::span<const std::byte> data);

}  // namespace attnd::attnctl
