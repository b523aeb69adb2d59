#include "client/attnctl/npy.h"

#include <array>
#include <cerrno>
#include <fstream>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace attnd::attnctl {
namespace {

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr std::size_t kAlignment = 64;  // of the data in files that are written

absl::Status Damaged(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("not a sound .npy file: ", what));
}

// The code and the words of the system's last error.
absl::Status FileError(const std::string& path) {
  return absl::ErrnoToStatus(errno != 0 ? errno : EIO, path);
}

// Reads the header, which is a Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape':
// (2, 3), }.
class HeaderReader {
 public:
  explicit HeaderReader(absl::string_view text) : rest_(text) {}

  absl::StatusOr<NpyArray> Read() {
    if (!Take("{")) return Damaged("the header is not a dictionary");
    while (!Take("}")) {
      if (absl::Status status = ReadEntry(); !status.ok()) return status;
      if (Take(",")) continue;
      if (!Take("}")) return Damaged("the header lacks a comma");
      break;
    }
    if (!absl::StripAsciiWhitespace(rest_).empty()) return Damaged("text after the header");
    if (!descr_ || !fortran_order_ || !shape_) {
      return Damaged("the header lacks descr, fortran_order or shape");
    }
    if (*fortran_order_)
      return absl::InvalidArgumentError("the array is in Fortran order; C order is accepted");
    return NpyArray{.descr = *descr_, .shape = *shape_, .data = {}};
  }

 private:
  // Skips spaces and then `token`, if it is next.
  bool Take(absl::string_view token) {
    rest_ = absl::StripLeadingAsciiWhitespace(rest_);
    return absl::ConsumePrefix(&rest_, token);
  }

  std::optional<std::string> TakeString() {
    for (const char* quote : {"'", "\""}) {
      if (!Take(quote)) continue;
      const std::size_t end = rest_.find(quote);
      if (end == absl::string_view::npos) return std::nullopt;
      std::string text(rest_.substr(0, end));
      rest_.remove_prefix(end + 1);
      return text;
    }
    return std::nullopt;
  }

  absl::Status ReadEntry() {
    const std::optional<std::string> key = TakeString();
    if (!key || !Take(":")) return Damaged("the header is not a dictionary of strings");
    if (*key == "descr") {
      descr_ = TakeString();
      if (!descr_) return absl::InvalidArgumentError("arrays of structures are not read");
    } else if (*key == "fortran_order") {
      fortran_order_ = Take("True");
      if (!*fortran_order_ && !Take("False")) return Damaged("fortran_order is no truth value");
    } else if (*key == "shape") {
      shape_ = TakeShape();
      if (!shape_) return Damaged("shape is not a tuple of sizes");
    } else {
      return Damaged(absl::StrCat("the header has an unknown key \"", *key, "\""));
    }
    return absl::OkStatus();
  }

  std::optional<std::vector<std::int64_t>> TakeShape() {
    std::vector<std::int64_t> shape;
    if (!Take("(")) return std::nullopt;
    while (!Take(")")) {
      rest_ = absl::StripLeadingAsciiWhitespace(rest_);
      const std::size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
      std::int64_t size = 0;
      if (!absl::SimpleAtoi(rest_.substr(0, digits), &size)) return std::nullopt;
      rest_.remove_prefix(digits);
      shape.push_back(size);
      if (Take(",")) continue;
      if (!Take(")")) return std::nullopt;
      break;
    }
    return shape;
  }

  absl::string_view rest_;
  std::optional<std::string> descr_;
  std::optional<bool> fortran_order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

// Bytes of an element, from a type such as "<f4": byte order, kind, size.
absl::StatusOr<std::int64_t> ElementBytes(absl::string_view descr) {
  std::int64_t size = 0;
  if (descr.size() < 3 || !absl::SimpleAtoi(descr.substr(2), &size) || size < 1 || size > 16) {
    return absl::InvalidArgumentError(absl::StrCat("type \"", descr, "\" is not read"));
  }
  if (descr[0] == '>')
    return absl::InvalidArgumentError(
        absl::StrCat("type \"", descr, "\" is big-endian; little-endian is accepted"));
  if (descr[0] != '<' && descr[0] != '|' && descr[0] != '=')
    return Damaged("descr has no byte order");
  if (!absl::StrContains("fbiuV", descr[1])) {
    return absl::InvalidArgumentError(absl::StrCat("type \"", descr, "\" is not read"));
  }
  return size;
}

// Bytes of the array's data, or std::nullopt where that overflows.
std::optional<std::int64_t> DataBytes(const std::vector<std::int64_t>& shape,
                                      std::int64_t element_bytes) {
  std::int64_t bytes = element_bytes;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(bytes, size, &bytes)) return std::nullopt;
  }
  return bytes;
}

// Splits the header off `file`, which begins after the magic string. Its length has 2 bytes in
// version 1, 4 in later ones.
absl::StatusOr<absl::string_view> TakeHeader(absl::string_view& file) {
  if (file.size() < 2) return Damaged("it ends in the header");
  const int version = static_cast<unsigned char>(file[0]);
  if (version < 1 || version > 3)
    return absl::InvalidArgumentError(absl::StrCat("version ", version, " is not read"));
  const std::size_t length_bytes = version == 1 ? 2 : 4;
  file.remove_prefix(2);
  if (file.size() < length_bytes) return Damaged("it ends in the header");
  std::size_t length = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) {
    length |= static_cast<std::size_t>(static_cast<unsigned char>(file[i])) << (8 * i);
  }
  file.remove_prefix(length_bytes);
  if (file.size() < length) return Damaged("it ends in the header");
  const absl::string_view header = file.substr(0, length);
  file.remove_prefix(length);
  return header;
}

std::string Dictionary(absl::string_view descr, const std::vector<std::int64_t>& shape) {
  return absl::StrCat("{'descr': '", descr, "', 'fortran_order': False, 'shape': (",
                      absl::StrJoin(shape, ", "), shape.size() == 1 ? ",), }" : "), }");
}

}  // namespace

absl::StatusOr<NpyArray> ParseNpy(absl::string_view file) {
  if (!absl::ConsumePrefix(&file, kMagic)) return Damaged("it does not begin with NumPy's mark");
  const absl::StatusOr<absl::string_view> header = TakeHeader(file);
  if (!header.ok()) return header.status();
  absl::StatusOr<NpyArray> array = HeaderReader(*header).Read();
  if (!array.ok()) return array;
  const absl::StatusOr<std::int64_t> element_bytes = ElementBytes(array->descr);
  if (!element_bytes.ok()) return element_bytes.status();
  const std::optional<std::int64_t> bytes = DataBytes(array->shape, *element_bytes);
  if (!bytes || *bytes != static_cast<std::int64_t>(file.size())) {
    return Damaged(absl::StrCat("it has ", file.size(), " bytes of data, its shape (",
                                absl::StrJoin(array->shape, ", "), ") of ", array->descr, " needs ",
                                bytes ? absl::StrCat(*bytes) : "more than there can be"));
  }
  const auto* const data = reinterpret_cast<const std::byte*>(file.data());
  array->data.assign(data, data + file.size());
  return array;
}

absl::StatusOr<NpyArray> ReadNpy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return FileError(path);
  // Not by stream iterators: of a directory they throw.
  std::string file;
  std::array<char, 1 << 16> part;
  while (in.read(part.data(), part.size()), in.gcount() > 0)
    file.append(part.data(), static_cast<std::size_t>(in.gcount()));
  if (in.bad()) return FileError(path);
  absl::StatusOr<NpyArray> array = ParseNpy(file);
  if (array.ok()) return array;
  return absl::Status(array.status().code(), absl::StrCat(path, ": ", array.status().message()));
}

absl::Status WriteNpy(const std::string& path, absl::string_view descr,
                      const std::vector<std::int64_t>& shape, std::span<const std::byte> data) {
  std::string header = Dictionary(descr, shape);
  const std::size_t before = kMagic.size() + 4;  // the mark, the version, the header's length
  const std::size_t end = (before + header.size() + 1 + kAlignment - 1) / kAlignment * kAlignment;
  header.resize(end - before - 1, ' ');
  header.push_back('\n');
  const char version_and_length[4] = {1, 0, static_cast<char>(header.size() & 0xff),
                                      static_cast<char>(header.size() >> 8)};
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(kMagic.data(), kMagic.size());
  out.write(version_and_length, sizeof(version_and_length));
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  out.close();
  if (!out) return FileError(path);
  return absl::OkStatus();
}

}  // namespace attnd::attnctl
