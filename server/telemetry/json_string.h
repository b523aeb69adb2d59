// Text as a JSON string.
#pragma once

#include <string>
#include <string_view>

namespace attnd {

// Appends `text` in quotes, with quotes, backslashes and control characters escaped. JSON is UTF-8
// (RFC 8259, 8.1): every byte that begins no well-formed sequence becomes U+FFFD.
void AppendJsonString(std::string_view text, std::string* out);

}  // namespace attnd
