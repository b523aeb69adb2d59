#include "server/telemetry/json_string.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/str_format.h"

namespace attnd {
namespace {

constexpr char kReplacementCharacter[] = "\xef\xbf\xbd";  // U+FFFD

// The bytes that begin a UTF-8 sequence and those that may follow next; any further ones are 80 to
// bf.
struct Utf8Form {
  unsigned char first_least, first_most;
  unsigned char second_least, second_most;
  std::size_t size;
};

// The Unicode Standard, table 3-7: no longer forms of shorter sequences, no surrogates, nothing
// above U+10FFFF.
constexpr Utf8Form kUtf8Forms[] = {
    {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3}, {0xe1, 0xec, 0x80, 0xbf, 3},
    {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3}, {0xf0, 0xf0, 0x90, 0xbf, 4},
    {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
};

bool InRange(char c, unsigned char least, unsigned char most) {
  const auto byte = static_cast<unsigned char>(c);
  return least <= byte && byte <= most;
}

bool Matches(std::string_view text, const Utf8Form& form) {
  return text.size() >= form.size && InRange(text[0], form.first_least, form.first_most) &&
         InRange(text[1], form.second_least, form.second_most) &&
         std::all_of(text.begin() + 2, text.begin() + static_cast<std::ptrdiff_t>(form.size),
                     [](char c) { return InRange(c, 0x80, 0xbf); });
}

// Bytes of the sequence of two or more that `text` begins with; 0 if there is none.
std::size_t MultibyteSize(std::string_view text) {
  for (const Utf8Form& form : kUtf8Forms) {
    if (Matches(text, form)) return form.size;
  }
  return 0;
}

void AppendAscii(char c, std::string* out) {
  if (c == '"' || c == '\\') {
    out->push_back('\\');
    out->push_back(c);
  } else if (static_cast<unsigned char>(c) < 0x20) {
    absl::StrAppendFormat(out, "\\u%04x", c);
  } else {
    out->push_back(c);
  }
}

}  // namespace

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  while (!text.empty()) {
    std::size_t size = 1;
    if (static_cast<unsigned char>(text.front()) < 0x80) {
      AppendAscii(text.front(), out);
    } else if (const std::size_t multibyte = MultibyteSize(text); multibyte > 0) {
      size = multibyte;
      out->append(text.substr(0, size));
    } else {
      out->append(kReplacementCharacter);
    }
    text.remove_prefix(size);
  }
  out->push_back('"');
}

}  // namespace attnd
