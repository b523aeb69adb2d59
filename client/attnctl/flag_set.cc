#include "client/attnctl/flag_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace attnd::attnctl {
namespace {

absl::Status NotAccepted(absl::string_view text, absl::string_view accepted) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not ", accepted));
}

}  // namespace

absl::Status ParseFlag(absl::string_view text, std::string& value) {
  value = std::string(text);
  return absl::OkStatus();
}

absl::Status ParseFlag(absl::string_view text, bool& value) {
  if (text == "true" || text == "false") {
    value = text == "true";
    return absl::OkStatus();
  }
  return NotAccepted(text, "true or false");
}

absl::Status ParseFlag(absl::string_view text, std::int64_t& value) {
  return absl::SimpleAtoi(text, &value) ? absl::OkStatus() : NotAccepted(text, "a whole number");
}

absl::Status ParseFlag(absl::string_view text, float& value) {
  return absl::SimpleAtof(text, &value) ? absl::OkStatus() : NotAccepted(text, "a number");
}

absl::Status ParseFlag(absl::string_view text, absl::Duration& value) {
  if (!absl::ParseDuration(text, &value)) return NotAccepted(text, "a time such as 500ms or 10s");
  return value > absl::ZeroDuration() ? absl::OkStatus() : NotAccepted(text, "above zero");
}

std::vector<std::string> SplitFlagList(absl::string_view text) {
  if (text.empty()) return {};
  return absl::StrSplit(text, ',');
}

FlagSet::FlagSet(std::string usage, std::string summary)
    : usage_(std::move(usage)), summary_(std::move(summary)) {}

absl::Status FlagSet::Parse(std::span<const char* const> arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    absl::string_view argument = arguments[i];
    if (argument == "--help" || argument == "-h") {
      help_wanted_ = true;
      return absl::OkStatus();
    }
    if (!absl::ConsumePrefix(&argument, "--")) {
      return absl::InvalidArgumentError(absl::StrCat("unexpected argument \"", argument, "\""));
    }
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(argument, absl::MaxSplits('=', 1));
    const Flag* const flag = Find(parts.first);
    if (flag == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("unknown flag --", parts.first));
    }
    absl::string_view value = parts.second;
    if (!absl::StrContains(argument, '=')) {
      if (flag->is_bool) {
        value = "true";
      } else if (i + 1 < arguments.size()) {
        value = arguments[++i];
      } else {
        return absl::InvalidArgumentError(absl::StrCat("--", flag->name, " needs a value"));
      }
    }
    if (absl::Status status = flag->set(value); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("--", flag->name, ": ", status.message()));
    }
  }
  return absl::OkStatus();
}

std::string FlagSet::Help() const {
  std::string help = absl::StrCat("Usage: attnctl ", usage_, "\n", summary_, "\n\n");
  for (const Flag& flag : flags_) {
    const std::string head =
        absl::StrCat("--", flag.name, flag.is_bool ? "" : " ", flag.value_name);
    absl::StrAppendFormat(&help, "  %-28s %s\n", head, flag.help);
  }
  return help;
}

const FlagSet::Flag* FlagSet::Find(absl::string_view name) const {
  const auto found = std::find_if(flags_.begin(), flags_.end(),
                                  [&](const Flag& flag) { return flag.name == name; });
  return found == flags_.end() ? nullptr : &*found;
}

}  // namespace attnd::attnctl
