#include "server/telemetry/json_string.h"

#include <gtest/gtest.h>

#include <string>

namespace attnd {
namespace {

constexpr char kReplacement[] = "\xef\xbf\xbd";

// Without the quotes around it.
std::string JsonString(std::string_view text) {
  std::string json;
  AppendJsonString(text, &json);
  EXPECT_EQ(json.front(), '"');
  EXPECT_EQ(json.back(), '"');
  return json.substr(1, json.size() - 2);
}

std::string Replacements(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += kReplacement;
  return text;
}

TEST(JsonStringTest, QuotesBackslashesAndControlCharactersAreEscaped) {
  EXPECT_EQ(JsonString("a \"b\" \\ \n\x01\x1f\x7f"), "a \\\"b\\\" \\\\ \\u000a\\u0001\\u001f\x7f");
  EXPECT_EQ(JsonString(std::string_view("\0", 1)), "\\u0000");
}

TEST(JsonStringTest, WellFormedUtf8StaysAsItIs) {
  // The first and the last of each length, and both sides of the surrogates.
  for (const char* text :
       {"", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xef\xbf\xbf",
        "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf", "caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80"}) {
    EXPECT_EQ(JsonString(text), text);
  }
}

TEST(JsonStringTest, BytesThatBeginNoSequenceAreReplaced) {
  for (const char* text : {"\x80", "\xbf", "\xc0", "\xc1", "\xf5", "\xfe", "\xff"}) {
    EXPECT_EQ(JsonString(text), kReplacement);
  }
}

TEST(JsonStringTest, LongerFormsSurrogatesAndWhatIsPastUnicodeAreReplaced) {
  EXPECT_EQ(JsonString("\xc0\xaf"), Replacements(2));
  EXPECT_EQ(JsonString("\xe0\x9f\xbf"), Replacements(3));
  EXPECT_EQ(JsonString("\xed\xa0\x80"), Replacements(3));
  EXPECT_EQ(JsonString("\xf0\x8f\xbf\xbf"), Replacements(4));
  EXPECT_EQ(JsonString("\xf4\x90\x80\x80"), Replacements(4));
}

TEST(JsonStringTest, SequencesCutShortAreReplacedAndWhatFollowsIsKept) {
  EXPECT_EQ(JsonString("\xc3"), kReplacement);
  EXPECT_EQ(JsonString("\xe2\x82"), Replacements(2));
  EXPECT_EQ(JsonString("\xf0\x9f\x98"), Replacements(3));
  EXPECT_EQ(JsonString("\xe2\x82\"x"), Replacements(2) + "\\\"x");
  EXPECT_EQ(JsonString("\xf0\x9f\x98\xc3\xa9"), Replacements(3) + "\xc3\xa9");
}

}  // namespace
}  // namespace attnd
