#include "server/rpc/field_checks.h"

#include "absl/strings/str_join.h"
#include "kernels/attention_shape.h"

namespace attnd {

absl::Status CheckRange(absl::string_view field, std::int64_t value, std::int64_t least,
                        std::int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Refused(field, value,
                 least == most ? absl::StrCat(most) : absl::StrCat(least, " to ", most));
}

absl::Status CheckCount(absl::string_view list, std::int64_t count, std::int64_t needed,
                        absl::string_view meaning) {
  if (count == needed) return absl::OkStatus();
  return FieldError(list, absl::StrCat("has ", count, count == 1 ? " entry" : " entries",
                                       ", accepted: ", needed, " (", meaning, ")"));
}

absl::StatusOr<std::int64_t> CheckedBytes(absl::string_view what,
                                          std::initializer_list<std::int64_t> factors) {
  std::int64_t product = 1;
  for (const std::int64_t factor : factors) {
    product = CheckedMultiply(product, factor);
    if (product < 0) {
      return FieldError(what, absl::StrCat("has ", absl::StrJoin(factors, " x "),
                                           " bytes, accepted: fewer than 2^63"));
    }
  }
  return product;
}

}  // namespace attnd
