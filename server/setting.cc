#include "server/setting.h"

#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace attnd {
namespace {

using config::v1::ServerConfig;
using config::v1::Setting;

constexpr char kBytesForm[] = "a whole number and a unit (B, KiB, MiB, GiB, TiB, kB, MB, GB, TB)";
constexpr char kDurationForm[] = "a time with its unit, as 500ms, 30s or 1h30m";

struct ByteUnit {
  std::string_view name;
  std::int64_t bytes;
};

constexpr ByteUnit kByteUnits[] = {
    {"", 1},
    {"B", 1},
    {"KiB", std::int64_t{1} << 10},
    {"MiB", std::int64_t{1} << 20},
    {"GiB", std::int64_t{1} << 30},
    {"TiB", std::int64_t{1} << 40},
    {"kB", 1'000},
    {"MB", 1'000'000},
    {"GB", 1'000'000'000},
    {"TB", 1'000'000'000'000},
};

// absl::string_view is a type of its own where Abseil was built for C++14.
absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

absl::Status NotAccepted(const SettingField& field, std::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("got \"", Absl(text), "\"; accepted: ", DescribeAccepted(field)));
}

const Setting& SettingOf(const SettingField& field) {
  return field.options().GetExtension(config::v1::setting);
}

// The smallest or largest accepted value, in the form in which it is written in a setting.
std::string DescribeBound(const Setting& setting, std::int64_t bound) {
  switch (setting.format()) {
    case config::v1::SETTING_FORMAT_DURATION:
      return absl::FormatDuration(absl::Seconds(bound));
    case config::v1::SETTING_FORMAT_BYTES:
      return absl::StrCat(bound, "B");
    default:
      return absl::StrCat(bound);
  }
}

std::string DescribeRange(const Setting& setting) {
  if (!setting.has_min()) return "";
  if (!setting.has_max()) return absl::StrCat(", at least ", DescribeBound(setting, setting.min()));
  return absl::StrCat(" from ", DescribeBound(setting, setting.min()), " to ",
                      DescribeBound(setting, setting.max()));
}

bool InRange(const Setting& setting, std::int64_t value) {
  return (!setting.has_min() || value >= setting.min()) &&
         (!setting.has_max() || value <= setting.max());
}

bool IsChoice(const Setting& setting, const std::string& text) {
  if (setting.choices().empty()) return true;
  for (const std::string& choice : setting.choices()) {
    if (text == choice) return true;
  }
  return false;
}

bool TextAccepted(const Setting& setting, const std::string& text) {
  switch (setting.format()) {
    case config::v1::SETTING_FORMAT_BYTES: {
      const absl::StatusOr<std::int64_t> bytes = ParseBytes(text);
      return bytes.ok() && InRange(setting, *bytes);
    }
    case config::v1::SETTING_FORMAT_DURATION: {
      const absl::StatusOr<absl::Duration> duration = ParseDuration(text);
      return duration.ok() && *duration >= absl::Seconds(setting.min()) &&
             (!setting.has_max() || *duration <= absl::Seconds(setting.max()));
    }
    default:
      return IsChoice(setting, text);
  }
}

}  // namespace

absl::StatusOr<std::int64_t> ParseBytes(std::string_view text) {
  const std::size_t digits = text.find_first_not_of("0123456789");
  const std::string_view unit = digits == std::string_view::npos ? "" : text.substr(digits);
  std::int64_t number = 0;
  if (absl::SimpleAtoi(Absl(text.substr(0, digits)), &number)) {
    for (const ByteUnit& known : kByteUnits) {
      if (unit == known.name && number <= std::numeric_limits<std::int64_t>::max() / known.bytes) {
        return number * known.bytes;
      }
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("got \"", Absl(text), "\"; accepted: ", kBytesForm));
}

absl::StatusOr<absl::Duration> ParseDuration(std::string_view text) {
  absl::Duration duration;
  if (absl::ParseDuration(Absl(text), &duration) && duration >= absl::ZeroDuration() &&
      duration != absl::InfiniteDuration()) {
    return duration;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("got \"", Absl(text), "\"; accepted: ", kDurationForm));
}

std::string DescribeAccepted(const SettingField& field) {
  const Setting& setting = SettingOf(field);
  switch (field.cpp_type()) {
    case SettingField::CPPTYPE_BOOL:
      return "true or false";
    case SettingField::CPPTYPE_INT32:
      return absl::StrCat("a whole number", DescribeRange(setting));
    default:
      break;
  }
  switch (setting.format()) {
    case config::v1::SETTING_FORMAT_BYTES:
      return absl::StrCat(kBytesForm, DescribeRange(setting));
    case config::v1::SETTING_FORMAT_DURATION:
      return absl::StrCat(kDurationForm, DescribeRange(setting));
    default:
      return setting.choices().empty() ? "any text" : absl::StrJoin(setting.choices(), ", ");
  }
}

absl::Status SetFromText(const SettingField& field, std::string_view text, ServerConfig* config) {
  const google::protobuf::Reflection& reflection = *config->GetReflection();
  if (field.cpp_type() == SettingField::CPPTYPE_BOOL) {
    if (text != "true" && text != "false") return NotAccepted(field, text);
    reflection.SetBool(config, &field, text == "true");
    return absl::OkStatus();
  }
  if (field.cpp_type() == SettingField::CPPTYPE_INT32) {
    std::int32_t number = 0;
    if (!absl::SimpleAtoi(Absl(text), &number)) return NotAccepted(field, text);
    reflection.SetInt32(config, &field, number);
  } else {
    reflection.SetString(config, &field, std::string(text));
  }
  return CheckSetting(field, *config);
}

absl::Status CheckSetting(const SettingField& field, const ServerConfig& config) {
  const google::protobuf::Reflection& reflection = *config.GetReflection();
  const Setting& setting = SettingOf(field);
  bool accepted = true;
  if (field.cpp_type() == SettingField::CPPTYPE_INT32) {
    accepted = InRange(setting, reflection.GetInt32(config, &field));
  } else if (field.cpp_type() == SettingField::CPPTYPE_STRING) {
    accepted = TextAccepted(setting, reflection.GetString(config, &field));
  }
  return accepted ? absl::OkStatus() : NotAccepted(field, SettingText(field, config));
}

std::string SettingText(const SettingField& field, const ServerConfig& config) {
  const google::protobuf::Reflection& reflection = *config.GetReflection();
  switch (field.cpp_type()) {
    case SettingField::CPPTYPE_BOOL:
      return reflection.GetBool(config, &field) ? "true" : "false";
    case SettingField::CPPTYPE_INT32:
      return absl::StrCat(reflection.GetInt32(config, &field));
    default:
      return reflection.GetString(config, &field);
  }
}

}  // namespace attnd
