// What a boolean mask leaves of a range of keys.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/attention_mask.h"

namespace attnd::cpu {

// The smallest part of `keys` beyond which `row`, a mask's row, forbids all of them; empty where it
// forbids all. Eight keys at a time.
inline KeyRange AllowedPart(const std::uint8_t* row, KeyRange keys) {
  const auto eight_forbidden = [row](std::int64_t first) {
    std::uint64_t word;
    std::memcpy(&word, row + first, sizeof(word));
    return word == 0;
  };
  while (keys.end - keys.begin >= 8 && eight_forbidden(keys.begin)) keys.begin += 8;
  while (keys.begin < keys.end && row[keys.begin] == 0) ++keys.begin;
  while (keys.end - keys.begin >= 8 && eight_forbidden(keys.end - 8)) keys.end -= 8;
  while (keys.begin < keys.end && row[keys.end - 1] == 0) --keys.end;
  return keys.begin < keys.end ? keys : KeyRange{};
}

}  // namespace attnd::cpu
