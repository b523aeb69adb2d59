// The flags of one command: declared with the variable they set, parsed from the command line,
// listed in its help.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace attnd::attnctl {

// How the text after a flag becomes a value. InvalidArgument says what is accepted. Lists are
// separated by commas.
absl::Status ParseFlag(absl::string_view text, std::string& value);
absl::Status ParseFlag(absl::string_view text, bool& value);
absl::Status ParseFlag(absl::string_view text, std::int64_t& value);
absl::Status ParseFlag(absl::string_view text, float& value);
absl::Status ParseFlag(absl::string_view text, absl::Duration& value);

template <typename T>
absl::Status ParseFlag(absl::string_view text, std::optional<T>& value) {
  return ParseFlag(text, value.emplace());
}

std::vector<std::string> SplitFlagList(absl::string_view text);

template <typename T>
absl::Status ParseFlag(absl::string_view text, std::vector<T>& values) {
  values.clear();
  for (const std::string& part : SplitFlagList(text)) {
    T value{};
    if (absl::Status status = ParseFlag(part, value); !status.ok()) return status;
    values.push_back(value);
  }
  return absl::OkStatus();
}

class FlagSet {
 public:
  // `usage` follows "Usage: attnctl " in the help; `summary` follows it.
  FlagSet(std::string usage, std::string summary);

  // Declares --`name`, which sets `target`. `value_name` stands for the value in the help. A bool
  // needs no value.
  template <typename T>
  void Add(const std::string& name, const std::string& value_name, const std::string& help,
           T* target) {
    flags_.push_back({name, value_name, help, std::is_same_v<T, bool>,
                      [target](absl::string_view text) { return ParseFlag(text, *target); }});
  }

  // Takes "--name value" and "--name=value"; "--help" sets help_wanted. InvalidArgument for
  // anything else, naming the flag.
  absl::Status Parse(std::span<const char* const> arguments);

  bool help_wanted() const { return help_wanted_; }
  std::string Help() const;

 private:
  struct Flag {
    std::string name;
    std::string value_name;
    std::string help;
    bool is_bool;
    std::function<absl::Status(absl::string_view)> set;
  };

  const Flag* Find(absl::string_view name) const;

  std::string usage_;
  std::string summary_;
  std::vector<Flag> flags_;
  bool help_wanted_ = false;
};

}  // namespace attnd::attnctl
