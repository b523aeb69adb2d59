#include "client/attnctl/flag_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace attnd::attnctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class FlagSetTest : public ::testing::Test {
 protected:
  FlagSetTest() {
    flags_.Add("name", "TEXT", "a text", &name_);
    flags_.Add("count", "N", "a number", &count_);
    flags_.Add("scale", "X", "perhaps a number", &scale_);
    flags_.Add("list", "N,N", "numbers", &list_);
    flags_.Add("time", "TIME", "a time", &time_);
    flags_.Add("on", "", "a switch", &on_);
  }

  absl::Status Parse(std::vector<const char*> arguments) { return flags_.Parse(arguments); }

  FlagSet flags_{"try [flags]", "Tries flags."};
  std::string name_ = "default";
  std::int64_t count_ = 7;
  std::optional<float> scale_;
  std::vector<std::int64_t> list_;
  absl::Duration time_;
  bool on_ = false;
};

TEST_F(FlagSetTest, TakesValuesAfterASpaceOrAnEqualsSign) {
  ASSERT_TRUE(Parse({"--name", "a=b", "--count=-3", "--scale", "0.5", "--list=1,2,3", "--on",
                     "--time=1m30s"})
                  .ok());
  EXPECT_EQ(name_, "a=b");
  EXPECT_EQ(count_, -3);
  EXPECT_EQ(scale_, 0.5f);
  EXPECT_THAT(list_, ElementsAre(1, 2, 3));
  EXPECT_EQ(time_, absl::Seconds(90));
  EXPECT_TRUE(on_);
}

TEST_F(FlagSetTest, KeepsDefaultsOfFlagsNotGiven) {
  ASSERT_TRUE(Parse({}).ok());
  EXPECT_EQ(name_, "default");
  EXPECT_EQ(count_, 7);
  EXPECT_FALSE(scale_.has_value());
}

TEST_F(FlagSetTest, ASwitchCanBeTurnedOff) {
  on_ = true;
  ASSERT_TRUE(Parse({"--on=false", "--list="}).ok());
  EXPECT_FALSE(on_);
  EXPECT_THAT(list_, IsEmpty());
}

TEST_F(FlagSetTest, ErrorsNameTheFlagAndWhatIsAccepted) {
  EXPECT_EQ(Parse({"--bad", "1"}).message(), "unknown flag --bad");
  EXPECT_EQ(Parse({"stray"}).message(), "unexpected argument \"stray\"");
  EXPECT_EQ(Parse({"--count"}).message(), "--count needs a value");
  EXPECT_EQ(Parse({"--count=ten"}).message(), "--count: \"ten\" is not a whole number");
  EXPECT_EQ(Parse({"--list=1,,2"}).message(), "--list: \"\" is not a whole number");
  EXPECT_EQ(Parse({"--on=maybe"}).message(), "--on: \"maybe\" is not true or false");
  EXPECT_EQ(Parse({"--time=1"}).message(), "--time: \"1\" is not a time such as 500ms or 10s");
  EXPECT_EQ(Parse({"--time=0s"}).message(), "--time: \"0s\" is not above zero");
  EXPECT_EQ(Parse({"--time=-1s"}).message(), "--time: \"-1s\" is not above zero");
}

TEST_F(FlagSetTest, HelpListsEveryFlag) {
  ASSERT_TRUE(Parse({"--help"}).ok());
  EXPECT_TRUE(flags_.help_wanted());
  EXPECT_THAT(flags_.Help(), HasSubstr("Usage: attnctl try [flags]\nTries flags.\n"));
  EXPECT_THAT(flags_.Help(), HasSubstr("--count N"));
}

}  // namespace
}  // namespace attnd::attnctl
