#include "client/attnctl/npy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace attnd::attnctl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file of version 1 with `header` and `data`.
std::string File(const std::string& header, const std::string& data) {
  std::string file("\x93NUMPY\x01\x00", 8);
  file.push_back(static_cast<char>(header.size() & 0xff));
  file.push_back(static_cast<char>(header.size() >> 8));
  return file + header + data;
}

const char kHeader[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }         \n";

std::string Message(const absl::StatusOr<NpyArray>& array) {
  return std::string(array.status().message());
}

TEST(NpyTest, ReadsWhatNumPyWrites) {
  const auto array = ParseNpy(File(kHeader, std::string(24, 'x')));
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_EQ(array->descr, "<f4");
  EXPECT_THAT(array->shape, ElementsAre(2, 3));
  EXPECT_EQ(array->data.size(), 24u);
}

TEST(NpyTest, ReadsVersion2WithItsLongerLength) {
  const std::string header = kHeader;
  std::string file("\x93NUMPY\x02\x00", 8);
  file += static_cast<char>(header.size());
  file += std::string(3, '\0') + header + std::string(24, 'x');
  EXPECT_TRUE(ParseNpy(file).ok());
}

TEST(NpyTest, ReadsScalarsVectorsAndEmptyArrays) {
  EXPECT_TRUE(ParseNpy(File("{'descr': '|b1', 'fortran_order': False, 'shape': (), }", "\1")).ok());
  EXPECT_TRUE(
      ParseNpy(File("{'descr': '<f2', 'fortran_order': False, 'shape': (2,), }", "abcd")).ok());
  EXPECT_TRUE(
      ParseNpy(File("{'descr': '<f2', 'fortran_order': False, 'shape': (0, 7), }", "")).ok());
}

TEST(NpyTest, WritesWhatItReads) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/written.npy");
  const float values[] = {1, 2, 3, 4, 5, 6};
  ASSERT_TRUE(WriteNpy(path, "<f4", {1, 6}, std::as_bytes(std::span(values))).ok());
  const auto array = ReadNpy(path);
  ASSERT_TRUE(array.ok()) << array.status();
  EXPECT_THAT(array->shape, ElementsAre(1, 6));
  EXPECT_EQ(std::memcmp(array->data.data(), values, sizeof(values)), 0);
}

TEST(NpyTest, TheDataOfAWrittenFileIsAligned) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/aligned.npy");
  ASSERT_TRUE(WriteNpy(path, "|b1", {0}, {}).ok());
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  ASSERT_NE(file, nullptr);
  std::fseek(file, 0, SEEK_END);
  EXPECT_EQ(std::ftell(file) % 64, 0);
  std::fclose(file);
}

TEST(NpyTest, AMissingFileIsNamed) {
  const auto array = ReadNpy("/no/such/file.npy");
  EXPECT_EQ(array.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Message(array), HasSubstr("/no/such/file.npy: No such file"));
}

TEST(NpyTest, ADirectoryIsNoFile) {
  const auto array = ReadNpy(::testing::TempDir());
  EXPECT_FALSE(array.ok());
  EXPECT_THAT(Message(array), HasSubstr("Is a directory"));
}

TEST(NpyTest, DataOfTheWrongSizeIsRefused) {
  for (const std::size_t size : {0, 23, 25}) {
    const auto array = ParseNpy(File(kHeader, std::string(size, 'x')));
    EXPECT_EQ(array.status().code(), absl::StatusCode::kInvalidArgument) << size;
    EXPECT_THAT(Message(array), HasSubstr("its shape (2, 3) of <f4 needs 24"));
  }
}

TEST(NpyTest, ShapesThatOverflowAreRefused) {
  const char* const shapes[] = {"(4294967296, 4294967296)", "(9223372036854775807,)",
                                "(9223372036854775808,)", "(99999999999999999999999,)", "(-1, 6)"};
  for (const char* const shape : shapes) {
    const auto header =
        absl::StrCat("{'descr': '<f4', 'fortran_order': False, 'shape': ", shape, "}");
    EXPECT_EQ(ParseNpy(File(header, "")).status().code(), absl::StatusCode::kInvalidArgument)
        << shape;
  }
}

TEST(NpyTest, WhatIsNotReadSaysSo) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"'>f8'", "False", "type \">f8\" is big-endian; little-endian is accepted"},
      {"'<f8'", "True", "the array is in Fortran order; C order is accepted"},
      {"'|O8'", "False", "type \"|O8\" is not read"},
      {"'<c8'", "False", "type \"<c8\" is not read"},
      {"[('a', '<f8')]", "False", "arrays of structures are not read"}};
  for (const auto& [descr, order, text] : cases) {
    const auto array = ParseNpy(
        File(absl::StrCat("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': (1,), }"),
             std::string(8, 'x')));
    EXPECT_EQ(array.status().code(), absl::StatusCode::kInvalidArgument) << descr;
    EXPECT_EQ(Message(array), text);
  }
}

TEST(NpyTest, AFileThatCannotBeWrittenIsReportedInTheSystemsWords) {
  const absl::Status no_folder = WriteNpy("/no/such/folder/out.npy", "|b1", {0}, {});
  EXPECT_EQ(no_folder.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(no_folder.message(), "/no/such/folder/out.npy: No such file or directory");
  const absl::Status full = WriteNpy("/dev/full", "|b1", {0}, {});
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(full.message(), "/dev/full: No space left on device");
}

TEST(NpyTest, BrokenHeadersAreRefused) {
  const char* const headers[] = {
      "",
      "{",
      "{}",
      "{'descr': '<f4'}",
      "{'descr' '<f4', 'fortran_order': False, 'shape': (), }",
      "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2), }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (1, }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': 3, }",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (), 'more': 'x'}",
      "{'descr': '<f4', 'fortran_order': False, 'shape': (), } {",
      "{'descr': 'f', 'fortran_order': False, 'shape': (), }",
      "{'descr: <f4, 'fortran_order': False, 'shape': (), }"};
  for (const char* const header : headers) {
    EXPECT_FALSE(ParseNpy(File(header, "xxxx")).ok()) << header;
  }
}

TEST(NpyTest, FilesCutShortAreRefused) {
  const std::string file = File(kHeader, std::string(24, 'x'));
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_FALSE(ParseNpy(file.substr(0, size)).ok()) << size;
  }
}

// Whatever the bytes: no crash, and an array that was accepted has the data its shape needs.
TEST(NpyTest, DamagedFilesNeverGiveMoreDataThanTheyHave) {
  const std::string file = File(kHeader, std::string(24, 'x'));
  std::mt19937 random(11);
  for (int round = 0; round < 50'000; ++round) {
    std::string damaged = file;
    for (int change = 0; change < 4; ++change) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    damaged.resize(damaged.size() - random() % 8);
    const auto array = ParseNpy(damaged);
    if (!array.ok()) continue;
    ASSERT_LE(array->data.size(), damaged.size());
  }
}

}  // namespace
}  // namespace attnd::attnctl
