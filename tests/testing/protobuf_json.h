// JSON that a program under test has written, for tests.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "google/protobuf/struct.pb.h"

namespace attnd::testing {

// The members of the JSON object `text`; nothing if it is not one.
//
// They are read through protobuf's reflection: under ThreadSanitizer the maps of protobuf's headers
// have a member more than those of the system's library, which Struct::fields() would trip over.
std::optional<std::map<std::string, google::protobuf::Value>> ParseJson(const std::string& text);

}  // namespace attnd::testing
