// Logging: spdlog, set up once, to standard error, as text or as one JSON object a line.
//
// A line is a fixed message and fields, so that a machine can count messages and filter by field:
//   Log(spdlog::level::info, "server started", {{"grpc", address}, {"http_port", port}});
//   text: 2026-01-31T12:00:00.000000Z info server started grpc=127.0.0.1:8001 http_port=8002
//   json: {"time":"2026-01-31T12:00:00.000000Z","level":"info","message":"server started",...}
// A JSON line is valid JSON whatever is logged: bytes that are not UTF-8 become U+FFFD.
// Tensor contents and credentials are never logged.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "spdlog/sinks/sink.h"
#include "spdlog/spdlog.h"

namespace attnd {

enum class LogFormat : std::uint8_t { kText, kJson };

struct LogOptions {
  spdlog::level::level_enum level = spdlog::level::info;
  LogFormat format = LogFormat::kText;
};

// A key and its value. The key is a word in lower case; numbers and booleans stay bare in JSON, a
// number that is not finite becomes null.
class LogField {
 public:
  LogField(std::string_view key, std::string_view value);
  LogField(std::string_view key, const char* value) : LogField(key, std::string_view(value)) {}
  LogField(std::string_view key, const std::string& value)
      : LogField(key, std::string_view(value)) {}
  LogField(std::string_view key, std::int64_t value);
  LogField(std::string_view key, int value) : LogField(key, std::int64_t{value}) {}
  LogField(std::string_view key, double value);
  LogField(std::string_view key, bool value);

  std::string_view key() const { return key_; }
  const std::string& value() const { return value_; }
  bool is_text() const { return is_text_; }

 private:
  std::string_view key_;
  std::string value_;
  bool is_text_ = false;
};

// Replaces spdlog's default logger, so that lines of spdlog's own functions come out in the same
// form, without fields. To be called before other threads log.
void SetUpLogging(const LogOptions& options);

// The same into a sink of the caller's.
void SetUpLogging(const LogOptions& options, spdlog::sink_ptr sink);

// Whether lines of `level` are written: for lines whose fields cost something to make.
bool ShouldLog(spdlog::level::level_enum level);

// Logs one line. Costs one comparison if `level` is off. Thread-safe.
void Log(spdlog::level::level_enum level, std::string_view message,
         std::initializer_list<LogField> fields = {});

}  // namespace attnd
