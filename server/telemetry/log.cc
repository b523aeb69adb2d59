#include "server/telemetry/log.h"

#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "server/telemetry/json_string.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"

namespace attnd {
namespace {

constexpr char kTextPattern[] = "%Y-%m-%dT%H:%M:%S.%fZ %l %v";
constexpr char kJsonPrefixPattern[] = R"({"time":"%Y-%m-%dT%H:%M:%S.%fZ","level":"%l",)";

// Payloads of this logger are finished: text, or the members of a JSON object.
constexpr char kStructuredLoggerName[] = "structured";

std::string JsonPayload(std::string_view message, std::initializer_list<LogField> fields) {
  std::string payload = "\"message\":";
  AppendJsonString(message, &payload);
  for (const LogField& field : fields) {
    payload.push_back(',');
    AppendJsonString(field.key(), &payload);
    payload.push_back(':');
    if (field.is_text()) {
      AppendJsonString(field.value(), &payload);
    } else {
      payload.append(field.value());
    }
  }
  return payload;
}

bool NeedsQuotes(std::string_view value) {
  if (value.empty()) return true;
  for (const char c : value) {
    if (static_cast<unsigned char>(c) <= 0x20 || c == '"' || c == '=') return true;
  }
  return false;
}

std::string TextPayload(std::string_view message, std::initializer_list<LogField> fields) {
  std::string payload(message);
  for (const LogField& field : fields) {
    payload.append(" ").append(field.key()).append("=");
    if (NeedsQuotes(field.value())) {
      AppendJsonString(field.value(), &payload);
    } else {
      payload.append(field.value());
    }
  }
  return payload;
}

class JsonFormatter : public spdlog::formatter {
 public:
  JsonFormatter()
      : prefix_(std::make_unique<spdlog::pattern_formatter>(
            kJsonPrefixPattern, spdlog::pattern_time_type::utc, std::string())) {}

  void format(const spdlog::details::log_msg& line, spdlog::memory_buf_t& out) override {
    prefix_->format(line, out);
    std::string rest(line.payload.data(), line.payload.size());
    if (spdlog::string_view_t(kStructuredLoggerName) != line.logger_name) {
      rest = JsonPayload(rest, {});
    }
    rest.append("}\n");
    out.append(rest.data(), rest.data() + rest.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>();
  }

 private:
  std::unique_ptr<spdlog::formatter> prefix_;
};

std::unique_ptr<spdlog::formatter> MakeFormatter(LogFormat format) {
  if (format == LogFormat::kJson) return std::make_unique<JsonFormatter>();
  return std::make_unique<spdlog::pattern_formatter>(kTextPattern, spdlog::pattern_time_type::utc);
}

struct StructuredLog {
  LogFormat format = LogFormat::kText;
  std::shared_ptr<spdlog::logger> logger;
};

// Never destroyed: threads may log while the process ends.
StructuredLog& GlobalLog() {
  static auto* log = new StructuredLog{LogFormat::kText, spdlog::default_logger()};
  return *log;
}

}  // namespace

LogField::LogField(std::string_view key, std::string_view value)
    : key_(key), value_(value), is_text_(true) {}

LogField::LogField(std::string_view key, std::int64_t value)
    : key_(key), value_(absl::StrCat(value)) {}

LogField::LogField(std::string_view key, double value)
    : key_(key), value_(std::isfinite(value) ? absl::StrFormat("%.9g", value) : "null") {}

LogField::LogField(std::string_view key, bool value)
    : key_(key), value_(value ? "true" : "false") {}

void SetUpLogging(const LogOptions& options) {
  SetUpLogging(options, std::make_shared<spdlog::sinks::stderr_sink_mt>());
}

void SetUpLogging(const LogOptions& options, spdlog::sink_ptr sink) {
  sink->set_formatter(MakeFormatter(options.format));
  auto plain = std::make_shared<spdlog::logger>("", sink);
  plain->set_level(options.level);
  auto structured = std::make_shared<spdlog::logger>(kStructuredLoggerName, std::move(sink));
  structured->set_level(options.level);
  spdlog::set_default_logger(std::move(plain));
  GlobalLog() = {options.format, std::move(structured)};
}

bool ShouldLog(spdlog::level::level_enum level) { return GlobalLog().logger->should_log(level); }

void Log(spdlog::level::level_enum level, std::string_view message,
         std::initializer_list<LogField> fields) {
  const StructuredLog& log = GlobalLog();
  if (!log.logger->should_log(level)) return;
  const std::string payload =
      log.format == LogFormat::kJson ? JsonPayload(message, fields) : TextPayload(message, fields);
  log.logger->log(level, spdlog::string_view_t(payload.data(), payload.size()));
}

}  // namespace attnd
