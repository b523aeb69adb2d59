// Checks of single fields of a request. What they refuse is InvalidArgument: "field: is <value>,
// accepted: <what is>".
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/rpc/error_details.h"

namespace attnd {

template <typename Value>
absl::Status Refused(absl::string_view field, const Value& value, absl::string_view accepted) {
  return FieldError(field, absl::StrCat("is ", value, ", accepted: ", accepted));
}

// The name of an element of a list.
inline std::string Element(absl::string_view list, std::int64_t index) {
  return absl::StrCat(list, "[", index, "]");
}

// least <= value <= most.
absl::Status CheckRange(absl::string_view field, std::int64_t value, std::int64_t least,
                        std::int64_t most);

// A list has just the entries it needs. `meaning` says why that many.
absl::Status CheckCount(absl::string_view list, std::int64_t count, std::int64_t needed,
                        absl::string_view meaning);

// The product of sizes, none of them negative, of which `what` is made; an error where it does not
// fit in 63 bits.
absl::StatusOr<std::int64_t> CheckedBytes(absl::string_view what,
                                          std::initializer_list<std::int64_t> factors);

}  // namespace attnd
