#include "server/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "server/config_file.h"

namespace attnd {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

absl::StatusOr<CommandLine> Parse(std::vector<std::string_view> args) {
  return ParseCommandLine(args);
}

std::string ErrorOf(std::vector<std::string_view> args) {
  const absl::StatusOr<CommandLine> line = Parse(std::move(args));
  EXPECT_EQ(line.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(line.status().message());
}

std::string WriteFile(const std::string& text) {
  const std::string path = testing::TempDir() + "/" +
                           testing::UnitTest::GetInstance()->current_test_info()->name() +
                           ".textproto";
  std::ofstream(path) << text;
  return path;
}

TEST(CommandLineTest, NoArgumentsServeWithTheDefaults) {
  const absl::StatusOr<CommandLine> line = Parse({});
  ASSERT_TRUE(line.ok());
  EXPECT_EQ(line->action, CommandLine::Action::kServe);
  EXPECT_EQ(line->config.grpc_port(), 8001);
  EXPECT_EQ(line->config.http_port(), 8002);
  EXPECT_EQ(line->config.bind_address(), "127.0.0.1");
}

TEST(CommandLineTest, ValuesFollowAnEqualsSignOrTheFlag) {
  const absl::StatusOr<CommandLine> line = Parse({"--grpc-port=1", "--http-port", "2"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.grpc_port(), 1);
  EXPECT_EQ(line->config.http_port(), 2);
}

TEST(CommandLineTest, BooleansNeedNoValueAndCanBeNegated) {
  EXPECT_TRUE(Parse({"--reflection"})->config.reflection());
  EXPECT_FALSE(Parse({"--no-reflection"})->config.reflection());
  EXPECT_FALSE(Parse({"--reflection=false"})->config.reflection());
}

TEST(CommandLineTest, TheLastOfSeveralValuesCounts) {
  EXPECT_EQ(Parse({"--grpc-port=1", "--grpc-port=2"})->config.grpc_port(), 2);
}

TEST(CommandLineTest, FlagsWinOverTheFileWhereverTheyStand) {
  const std::string file = WriteFile("grpc_port: 11\nhttp_port: 12\n# a comment\n");
  const absl::StatusOr<CommandLine> line = Parse({"--grpc-port=1", "--config", file});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->config.grpc_port(), 1);
  EXPECT_EQ(line->config.http_port(), 12);
}

TEST(CommandLineTest, AFlagCanReturnASettingOfTheFileToItsDefault) {
  const std::string file = WriteFile("reflection: false");
  EXPECT_TRUE(Parse({"--config", file, "--reflection"})->config.reflection());
}

TEST(CommandLineTest, HelpWinsOverErrors) {
  EXPECT_EQ(Parse({"--nonsense", "--help"})->action, CommandLine::Action::kPrintHelp);
}

TEST(CommandLineTest, AnUnknownFlagIsNamedWithTheNearestKnownOne) {
  EXPECT_EQ(ErrorOf({"--grpc-prt=1"}), "--grpc-prt: unknown flag; did you mean --grpc-port?");
  EXPECT_EQ(ErrorOf({"--frobnicate"}), "--frobnicate: unknown flag");
  EXPECT_EQ(ErrorOf({"--hlep"}), "--hlep: unknown flag; did you mean --help?");
  EXPECT_EQ(ErrorOf({"--no-grpc-port"}), "--no-grpc-port: unknown flag; did you mean --grpc-port?");
}

TEST(CommandLineTest, ABareWordIsRefused) {
  EXPECT_EQ(ErrorOf({"serve"}), "\"serve\": not a flag; settings are given as --grpc-port=8001");
  EXPECT_THAT(ErrorOf({"-p"}), StartsWith("\"-p\": not a flag"));
}

TEST(CommandLineTest, ABadValueIsNamedWithWhatIsAccepted) {
  EXPECT_EQ(ErrorOf({"--http-port=99999"}),
            "--http-port: got \"99999\"; accepted: a whole number from -1 to 65535");
  EXPECT_EQ(ErrorOf({"--backend=tpu"}), "--backend: got \"tpu\"; accepted: auto, cpu, cuda");
}

TEST(CommandLineTest, AMissingValueIsNamedWithWhatIsAccepted) {
  EXPECT_EQ(ErrorOf({"--http-port"}),
            "--http-port: needs a value; accepted: a whole number from -1 to 65535");
  EXPECT_EQ(ErrorOf({"--config"}), "--config: needs a value; accepted: the path of a file");
}

TEST(CommandLineTest, AValueWhereNoneBelongsIsRefused) {
  EXPECT_EQ(ErrorOf({"--version=1"}), "--version: takes no value");
  EXPECT_EQ(ErrorOf({"--help=x"}), "--help: takes no value");
  EXPECT_EQ(ErrorOf({"--no-reflection=true"}), "--no-reflection: takes no value");
}

TEST(ConfigFileTest, AMissingFileIsNamed) {
  EXPECT_EQ(ErrorOf({"--config=/nonexistent/attnd.textproto"}),
            "/nonexistent/attnd.textproto: cannot read it: No such file or directory");
}

TEST(ConfigFileTest, ADirectoryIsNotAFile) {
  EXPECT_THAT(ErrorOf({"--config=/"}), HasSubstr("cannot read it: Is a directory"));
}

TEST(ConfigFileTest, AnEmptyFileLeavesTheDefaults) {
  const std::string file = WriteFile("");
  ASSERT_TRUE(Parse({"--config", file}).ok());
}

TEST(ConfigFileTest, AnUnknownSettingIsNamedWithItsLine) {
  const std::string file = WriteFile("grpc_port: 1\ngrpc_prt: 2\n");
  EXPECT_THAT(ErrorOf({"--config", file}),
              AllOf(StartsWith(file + ": line 2:"), HasSubstr("grpc_prt")));
}

TEST(ConfigFileTest, ASettingGivenTwiceIsRefused) {
  const std::string file = WriteFile("grpc_port: 1\ngrpc_port: 2\n");
  EXPECT_THAT(ErrorOf({"--config", file}), AllOf(HasSubstr("line 2:"), HasSubstr("grpc_port")));
}

TEST(ConfigFileTest, AValueOfTheWrongTypeIsNamedWithItsLine) {
  const std::string file = WriteFile("grpc_port: \"http\"\n");
  EXPECT_THAT(ErrorOf({"--config", file}), HasSubstr("line 1:"));
}

TEST(ConfigFileTest, AValueThatIsNotAcceptedIsNamedWithItsSetting) {
  const std::string file = WriteFile("staging_memory_bytes: \"lots\"\n");
  EXPECT_THAT(ErrorOf({"--config", file}),
              StartsWith(file + ": staging_memory_bytes: got \"lots\"; accepted: "));
}

TEST(ConfigFileTest, WhatIsPrintedReadsBackTheSame) {
  const absl::StatusOr<CommandLine> line =
      Parse({"--grpc-port=7", "--no-reflection", "--staging-memory-bytes=2GiB"});
  ASSERT_TRUE(line.ok());
  const std::string text = ConfigFileText(line->config);
  EXPECT_THAT(
      text, AllOf(HasSubstr("grpc_port: 7\n"), HasSubstr("http_port: 8002\n"),
                  HasSubstr("reflection: false\n"), HasSubstr("staging_memory_bytes: \"2GiB\"\n")));
  const absl::StatusOr<config::v1::ServerConfig> again = ReadConfigFile(WriteFile(text));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(ConfigFileText(*again), text);
}

TEST(HelpTest, HasOneLineForEverySetting) {
  const std::string help = HelpText();
  const google::protobuf::Descriptor& settings = *config::v1::ServerConfig::descriptor();
  for (int i = 0; i < settings.field_count(); ++i) {
    std::string flag = settings.field(i)->name();
    for (char& c : flag) c = c == '_' ? '-' : c;
    EXPECT_THAT(help, HasSubstr("\n  --" + flag + "="));
  }
}

}  // namespace
}  // namespace attnd
