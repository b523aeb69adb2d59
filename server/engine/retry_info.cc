#include "server/engine/retry_info.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/cord.h"

namespace attnd {
namespace {

// google.rpc.RetryInfo { google.protobuf.Duration retry_delay = 1; }, Duration { int64 seconds = 1;
// int32 nanos = 2; }
constexpr char kRetryDelayTag = 0x0A;  // field 1, length-delimited
constexpr char kSecondsTag = 0x08;     // field 1, varint
constexpr char kNanosTag = 0x10;       // field 2, varint

void AppendVarint(std::uint64_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

// Reads a varint off the front of `in`; nothing if it is cut short or too long.
std::optional<std::uint64_t> TakeVarint(std::string_view& in) {
  std::uint64_t value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    value |= std::uint64_t{byte & 0x7Fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// The value of the varint field `tag` at the front of `in`, 0 if another field or nothing is there.
std::optional<std::uint64_t> TakeField(char tag, std::string_view& in) {
  if (in.empty() || in.front() != tag) return 0;
  in.remove_prefix(1);
  return TakeVarint(in);
}

}  // namespace

absl::Status WithRetryDelay(absl::Status status, absl::Duration delay) {
  absl::Duration fraction;
  const std::int64_t seconds = absl::IDivDuration(delay, absl::Seconds(1), &fraction);
  std::string duration;
  duration.push_back(kSecondsTag);
  AppendVarint(static_cast<std::uint64_t>(seconds), duration);
  duration.push_back(kNanosTag);
  AppendVarint(static_cast<std::uint64_t>(absl::ToInt64Nanoseconds(fraction)), duration);

  std::string retry_info(1, kRetryDelayTag);
  AppendVarint(duration.size(), retry_info);
  retry_info += duration;
  status.SetPayload({kRetryInfoTypeUrl.data(), kRetryInfoTypeUrl.size()}, absl::Cord(retry_info));
  return status;
}

std::optional<absl::Duration> RetryDelayOf(const absl::Status& status) {
  const auto payload = status.GetPayload({kRetryInfoTypeUrl.data(), kRetryInfoTypeUrl.size()});
  if (!payload.has_value()) return std::nullopt;
  const std::string bytes(*payload);
  std::string_view in = bytes;
  const std::optional<std::uint64_t> length = TakeField(kRetryDelayTag, in);
  if (!length.has_value() || *length != in.size()) return std::nullopt;
  const std::optional<std::uint64_t> seconds = TakeField(kSecondsTag, in);
  if (!seconds.has_value()) return std::nullopt;
  const std::optional<std::uint64_t> nanos = TakeField(kNanosTag, in);
  if (!nanos.has_value()) return std::nullopt;
  return absl::Seconds(static_cast<std::int64_t>(*seconds)) +
         absl::Nanoseconds(static_cast<std::int64_t>(*nanos));
}

}  // namespace attnd
