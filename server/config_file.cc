#include "server/config_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "google/protobuf/io/tokenizer.h"
#include "google/protobuf/text_format.h"
#include "kernels/status_macros.h"
#include "server/setting.h"

namespace attnd {
namespace {

using config::v1::ServerConfig;

// Keeps the first error, which is the one to mend: later ones tend to follow from it.
class FirstError : public google::protobuf::io::ErrorCollector {
 public:
  void AddError(int line, int column, const std::string& message) override {
    if (text_.empty()) text_ = absl::StrCat("line ", line + 1, ":", column + 1, ": ", message);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  std::string contents;
  bool read = file != nullptr;
  if (file != nullptr) {
    char block[4096];
    std::size_t size = 0;
    while ((size = std::fread(block, 1, sizeof(block), file)) > 0) contents.append(block, size);
    read = std::ferror(file) == 0;
  }
  const int error = errno;
  if (file != nullptr) std::fclose(file);
  if (read) return contents;
  return absl::InvalidArgumentError(absl::StrCat(path, ": cannot read it: ", std::strerror(error)));
}

}  // namespace

absl::StatusOr<ServerConfig> ReadConfigFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ServerConfig config;
  FirstError error;
  google::protobuf::TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  if (!parser.ParseFromString(text, &config)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", error.text()));
  }
  std::vector<const SettingField*> fields;
  config.GetReflection()->ListFields(config, &fields);
  for (const SettingField* field : fields) {
    const absl::Status accepted = CheckSetting(*field, config);
    if (!accepted.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", field->name(), ": ", accepted.message()));
    }
  }
  return config;
}

std::string ConfigFileText(const ServerConfig& config) {
  ServerConfig complete = config;
  const google::protobuf::Descriptor& settings = *ServerConfig::descriptor();
  for (int i = 0; i < settings.field_count(); ++i) {
    const SettingField& field = *settings.field(i);
    // A value that is in effect was accepted before, so that setting it again cannot fail.
    SetFromText(field, SettingText(field, config), &complete).IgnoreError();
  }
  std::string text;
  google::protobuf::TextFormat::PrintToString(complete, &text);
  return text;
}

}  // namespace attnd
