#include "server/setting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace attnd {
namespace {

using ::testing::HasSubstr;

const SettingField& Field(const std::string& name) {
  const SettingField* field = config::v1::ServerConfig::descriptor()->FindFieldByName(name);
  EXPECT_NE(field, nullptr) << name;
  return *field;
}

TEST(ParseBytesTest, TakesBinaryAndDecimalUnits) {
  EXPECT_EQ(*ParseBytes("0"), 0);
  EXPECT_EQ(*ParseBytes("65536"), 65536);
  EXPECT_EQ(*ParseBytes("7B"), 7);
  EXPECT_EQ(*ParseBytes("4KiB"), 4096);
  EXPECT_EQ(*ParseBytes("4GiB"), std::int64_t{4} << 30);
  EXPECT_EQ(*ParseBytes("2TiB"), std::int64_t{2} << 40);
  EXPECT_EQ(*ParseBytes("3kB"), 3000);
  EXPECT_EQ(*ParseBytes("2GB"), 2'000'000'000);
}

TEST(ParseBytesTest, RefusesWhatIsNotASize) {
  for (const std::string_view text :
       {"", "GiB", "4G", "4gib", "-1", "+1", "1.5GiB", "4 GiB", "4GiB ", "1e9", "0x10"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

TEST(ParseBytesTest, RefusesWhatOverflows) {
  EXPECT_EQ(*ParseBytes("9223372036854775807"), INT64_MAX);
  EXPECT_FALSE(ParseBytes("9223372036854775808").ok());
  EXPECT_EQ(*ParseBytes("8388607TiB"), std::int64_t{8388607} << 40);
  EXPECT_FALSE(ParseBytes("8388608TiB").ok());
}

TEST(ParseDurationTest, TakesATimeWithUnits) {
  EXPECT_EQ(*ParseDuration("1m30s"), absl::Seconds(90));
  EXPECT_EQ(*ParseDuration("250ms"), absl::Milliseconds(250));
  EXPECT_EQ(*ParseDuration("0s"), absl::ZeroDuration());
}

TEST(ParseDurationTest, RefusesNegativeInfiniteAndBareNumbers) {
  for (const std::string_view text : {"", "30", "-1s", "inf", "1 s", "soon"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(SettingTest, EveryDefaultIsAccepted) {
  const config::v1::ServerConfig defaults;
  const google::protobuf::Descriptor& settings = *defaults.GetDescriptor();
  for (int i = 0; i < settings.field_count(); ++i) {
    EXPECT_TRUE(CheckSetting(*settings.field(i), defaults).ok())
        << settings.field(i)->name() << " " << SettingText(*settings.field(i), defaults);
  }
}

TEST(SettingTest, EveryFieldIsDescribedAndOfAKindThatTextCanSet) {
  const google::protobuf::Descriptor& settings = *config::v1::ServerConfig::descriptor();
  for (int i = 0; i < settings.field_count(); ++i) {
    const SettingField& field = *settings.field(i);
    EXPECT_FALSE(field.options().GetExtension(config::v1::setting).help().empty()) << field.name();
    EXPECT_FALSE(field.is_repeated()) << field.name();
    EXPECT_TRUE(field.cpp_type() == SettingField::CPPTYPE_BOOL ||
                field.cpp_type() == SettingField::CPPTYPE_INT32 ||
                field.cpp_type() == SettingField::CPPTYPE_STRING)
        << field.name();
  }
}

TEST(SettingTest, ARangeIncludesItsEnds) {
  config::v1::ServerConfig config;
  EXPECT_TRUE(SetFromText(Field("grpc_port"), "65535", &config).ok());
  EXPECT_EQ(config.grpc_port(), 65535);
  EXPECT_TRUE(SetFromText(Field("grpc_port"), "-1", &config).ok());
  EXPECT_FALSE(SetFromText(Field("grpc_port"), "65536", &config).ok());
  EXPECT_FALSE(SetFromText(Field("grpc_port"), "-2", &config).ok());
}

TEST(SettingTest, ErrorsNameTheTextAndWhatIsAccepted) {
  config::v1::ServerConfig config;
  EXPECT_EQ(SetFromText(Field("grpc_port"), "http", &config).message(),
            "got \"http\"; accepted: a whole number from -1 to 65535");
  EXPECT_EQ(SetFromText(Field("backend"), "gpu", &config).message(),
            "got \"gpu\"; accepted: auto, cpu, cuda");
  EXPECT_EQ(SetFromText(Field("reflection"), "yes", &config).message(),
            "got \"yes\"; accepted: true or false");
  EXPECT_THAT(SetFromText(Field("drain_delay"), "5", &config).message(),
              HasSubstr("accepted: a time with its unit, as 500ms, 30s or 1h30m from 0 to 1h"));
  EXPECT_THAT(SetFromText(Field("max_frame_bytes"), "1KiB", &config).message(),
              HasSubstr("from 16384B to 16777215B"));
}

}  // namespace
}  // namespace attnd
