#include "server/command_line.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "kernels/status_macros.h"
#include "server/config_file.h"
#include "server/setting.h"

namespace attnd {
namespace {

using config::v1::ServerConfig;
using Action = CommandLine::Action;

// A name further away than this from every flag is not a slip of the fingers.
constexpr int kMaxSuggestionDistance = 3;

std::string FlagName(const SettingField& field) {
  return absl::StrReplaceAll(field.name(), {{"_", "-"}});
}

// nullptr if there is no such setting.
const SettingField* FindSetting(const std::string& flag) {
  return ServerConfig::descriptor()->FindFieldByName(absl::StrReplaceAll(flag, {{"-", "_"}}));
}

const SettingField* FindBooleanSetting(const std::string& flag) {
  const SettingField* field = FindSetting(flag);
  return field != nullptr && field->cpp_type() == SettingField::CPPTYPE_BOOL ? field : nullptr;
}

// Insertions, deletions and replacements that turn `a` into `b` (Levenshtein 1966).
int EditDistance(const std::string& a, const std::string& b) {
  std::vector<int> row(b.size() + 1);
  std::iota(row.begin(), row.end(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    int diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const int replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// "; did you mean --grpc-port?", or nothing.
std::string Suggestion(const std::string& flag) {
  std::vector<std::string> known = {"config", "print-config", "version", "help"};
  const google::protobuf::Descriptor& settings = *ServerConfig::descriptor();
  for (int i = 0; i < settings.field_count(); ++i) known.push_back(FlagName(*settings.field(i)));
  const auto closest = std::min_element(known.begin(), known.end(),
                                        [&flag](const std::string& a, const std::string& b) {
                                          return EditDistance(flag, a) < EditDistance(flag, b);
                                        });
  if (EditDistance(flag, *closest) > kMaxSuggestionDistance) return "";
  return absl::StrCat("; did you mean --", *closest, "?");
}

class CommandLineParser {
 public:
  explicit CommandLineParser(absl::Span<const std::string_view> args) : args_(args) {}

  absl::StatusOr<CommandLine> Parse() {
    while (next_ < args_.size()) RETURN_IF_ERROR(ParseArgument(std::string(args_[next_++])));
    if (config_file_.has_value()) {
      ASSIGN_OR_RETURN(result_.config, ReadConfigFile(*config_file_));
    }
    result_.config.MergeFrom(flags_);
    return result_;
  }

 private:
  absl::Status ParseArgument(const std::string& argument) {
    if (!absl::StartsWith(argument, "--")) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", argument, "\": not a flag; settings are given as --grpc-port=8001"));
    }
    const std::size_t equals = argument.find('=');
    const std::string flag = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::optional<std::string> value;
    if (equals != std::string::npos) value = argument.substr(equals + 1);
    const absl::Status status = ParseFlag(flag, std::move(value));
    if (status.ok()) return status;
    return absl::InvalidArgumentError(absl::StrCat("--", flag, ": ", status.message()));
  }

  absl::Status ParseFlag(const std::string& flag, std::optional<std::string> value) {
    if (flag == "config") {
      ASSIGN_OR_RETURN(config_file_, TakeValue(std::move(value), "the path of a file"));
      return absl::OkStatus();
    }
    if (flag == "print-config") return SetAction(Action::kPrintConfig, value.has_value());
    // Without a value it has been seen before anything else: see ParseCommandLine.
    if (flag == "help") return absl::InvalidArgumentError("takes no value");
    if (flag == "version") return SetAction(Action::kPrintVersion, value.has_value());
    if (const SettingField* field = FindBooleanSetting(flag)) {
      return SetFromText(*field, value.value_or("true"), &flags_);
    }
    if (const SettingField* field = FindSetting(flag)) {
      ASSIGN_OR_RETURN(const std::string text,
                       TakeValue(std::move(value), DescribeAccepted(*field)));
      return SetFromText(*field, text, &flags_);
    }
    if (absl::StartsWith(flag, "no-")) {
      if (const SettingField* field = FindBooleanSetting(flag.substr(3))) {
        if (value.has_value()) return absl::InvalidArgumentError("takes no value");
        return SetFromText(*field, "false", &flags_);
      }
    }
    return absl::InvalidArgumentError(absl::StrCat("unknown flag", Suggestion(flag)));
  }

  absl::Status SetAction(Action action, bool has_value) {
    if (has_value) return absl::InvalidArgumentError("takes no value");
    result_.action = action;
    return absl::OkStatus();
  }

  // The text after "=", or else the next argument.
  absl::StatusOr<std::string> TakeValue(std::optional<std::string> value,
                                        const std::string& accepted) {
    if (value.has_value()) return *std::move(value);
    if (next_ < args_.size()) return std::string(args_[next_++]);
    return absl::InvalidArgumentError(absl::StrCat("needs a value; accepted: ", accepted));
  }

  const absl::Span<const std::string_view> args_;
  std::size_t next_ = 0;
  std::optional<std::string> config_file_;
  ServerConfig flags_;  // what the flags set, and nothing else
  CommandLine result_;
};

void AppendFlagHelp(const std::string& flag, const std::string& help, std::string* text) {
  absl::StrAppendFormat(text, "  --%-31s %s\n", flag, help);
}

}  // namespace

absl::StatusOr<CommandLine> ParseCommandLine(absl::Span<const std::string_view> args) {
  for (const std::string_view arg : args) {
    if (arg == "--help" || arg == "-h") return CommandLine{.action = Action::kPrintHelp};
  }
  return CommandLineParser(args).Parse();
}

std::string HelpText() {
  std::string text =
      "attnd: the attention server.\n"
      "Usage: attnd [--config FILE] [--SETTING=VALUE ...]\n"
      "Each flag below is a setting of the file too, with _ for -; flags win over the file.\n\n"
      "Program\n";
  AppendFlagHelp("config=FILE", "read settings from this file, in protobuf text format", &text);
  AppendFlagHelp("print-config", "print the settings in effect as such a file, and exit", &text);
  AppendFlagHelp("version", "print the version, and exit", &text);
  AppendFlagHelp("help", "print this text, and exit", &text);
  const ServerConfig defaults;
  const google::protobuf::Descriptor& settings = *ServerConfig::descriptor();
  for (int i = 0; i < settings.field_count(); ++i) {
    const SettingField& field = *settings.field(i);
    const config::v1::Setting& setting = field.options().GetExtension(config::v1::setting);
    if (setting.has_section()) absl::StrAppend(&text, "\n", setting.section(), "\n");
    AppendFlagHelp(absl::StrCat(FlagName(field), "=", SettingText(field, defaults)), setting.help(),
                   &text);
  }
  return text;
}

}  // namespace attnd
