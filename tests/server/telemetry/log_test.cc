#include "server/telemetry/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "spdlog/sinks/ostream_sink.h"
#include "tests/testing/protobuf_json.h"

namespace attnd {
namespace {

using ::testing::EndsWith;
using ::testing::MatchesRegex;

class LogTest : public ::testing::Test {
 protected:
  ~LogTest() override { SetUpLogging({}); }

  void SetUpTo(LogFormat format, spdlog::level::level_enum level = spdlog::level::info) {
    SetUpLogging({level, format}, std::make_shared<spdlog::sinks::ostream_sink_mt>(lines_));
  }

  std::ostringstream lines_;
};

class JsonLogTest : public LogTest {
 protected:
  // The members of the one line logged.
  std::map<std::string, google::protobuf::Value> Json() {
    const auto json = testing::ParseJson(lines_.str());
    EXPECT_TRUE(json.has_value()) << lines_.str();
    return json.value_or(std::map<std::string, google::protobuf::Value>());
  }
};

TEST_F(LogTest, TextBeginsWithTimeAndLevel) {
  SetUpTo(LogFormat::kText);
  Log(spdlog::level::info, "server started", {{"grpc", "127.0.0.1:8001"}, {"http_port", 8002}});
  EXPECT_THAT(lines_.str(), MatchesRegex("[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}\\.[0-9]{6}Z info "
                                         "server started grpc=127.0.0.1:8001 http_port=8002\n"));
}

TEST_F(LogTest, TextQuotesValuesThatWouldNotReadBack) {
  SetUpTo(LogFormat::kText);
  Log(spdlog::level::info, "m", {{"a", ""}, {"b", "x y"}, {"c", "say \"no\"\n"}});
  EXPECT_THAT(lines_.str(), EndsWith(" m a=\"\" b=\"x y\" c=\"say \\\"no\\\"\\u000a\"\n"));
}

TEST_F(JsonLogTest, JsonIsOneObjectALine) {
  SetUpTo(LogFormat::kJson);
  Log(spdlog::level::warn, "m",
      {{"text", "a \"b\"\\\n\x01"}, {"count", 3}, {"share", 0.5}, {"flag", true}});
  const auto json = Json();
  EXPECT_EQ(json.at("level").string_value(), "warning");
  EXPECT_EQ(json.at("message").string_value(), "m");
  EXPECT_EQ(json.at("text").string_value(), "a \"b\"\\\n\x01");
  EXPECT_EQ(json.at("count").number_value(), 3);
  EXPECT_EQ(json.at("share").number_value(), 0.5);
  EXPECT_TRUE(json.at("flag").bool_value());
}

TEST_F(JsonLogTest, JsonIsValidWhateverBytesAreLogged) {
  SetUpTo(LogFormat::kJson);
  Log(spdlog::level::info, "caf\xe9", {{"path", "/tmp/\xff\xc3"}});
  EXPECT_EQ(Json().at("message").string_value(), "caf\xef\xbf\xbd");
  EXPECT_EQ(Json().at("path").string_value(), "/tmp/\xef\xbf\xbd\xef\xbf\xbd");
}

TEST_F(JsonLogTest, LinesOfSpdlogItselfAreValidWhateverBytesAreLogged) {
  SetUpTo(LogFormat::kJson);
  spdlog::error("caf\xe9");
  EXPECT_EQ(Json().at("message").string_value(), "caf\xef\xbf\xbd");
}

TEST_F(JsonLogTest, JsonHasNoNumberForWhatIsNotFinite) {
  SetUpTo(LogFormat::kJson);
  Log(spdlog::level::info, "m", {{"x", std::numeric_limits<double>::infinity()}});
  EXPECT_TRUE(Json().at("x").has_null_value());
}

TEST_F(JsonLogTest, LinesOfSpdlogItselfAreJsonToo) {
  SetUpTo(LogFormat::kJson);
  spdlog::error("said \"{}\"", "no");
  EXPECT_EQ(Json().at("message").string_value(), "said \"no\"");
}

TEST_F(LogTest, LinesBelowTheLevelAreLeftOut) {
  SetUpTo(LogFormat::kText, spdlog::level::warn);
  Log(spdlog::level::info, "m");
  spdlog::info("m");
  EXPECT_EQ(lines_.str(), "");
}

}  // namespace
}  // namespace attnd
