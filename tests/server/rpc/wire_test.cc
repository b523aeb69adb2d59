#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "attnd/v1/attention.pb.h"
#include "server/rpc/wire_bytes.h"
#include "server/rpc/wire_reader.h"
#include "server/rpc/wire_writer.h"

namespace attnd {
namespace {

using ::testing::HasSubstr;

// `text` cut into slices of `slice_bytes`, an empty one after each.
std::vector<grpc::Slice> Cut(const std::string& text, std::size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (std::size_t begin = 0; begin < text.size(); begin += slice_bytes) {
    slices.emplace_back(text.substr(begin, slice_bytes));
    slices.emplace_back();
  }
  return slices;
}

std::string Text(std::size_t size) {
  std::string text(size, '\0');
  std::mt19937 random(7);
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

absl::Status ErrorOf(const std::string& message) {
  const std::vector<grpc::Slice> slices = Cut(message, 3);
  WireReader reader{WireBytesView(slices)};
  WireField field;
  while (true) {
    const absl::StatusOr<bool> more = reader.Next(&field);
    if (!more.ok()) return more.status();
    if (!*more) return absl::OkStatus();
  }
}

TEST(WireBytesTest, CopiesAcrossSlicesWhateverTheirSize) {
  const std::string text = Text(1000);
  for (const std::size_t slice_bytes : {1, 2, 7, 64, 999, 1000, 4096}) {
    const std::vector<grpc::Slice> slices = Cut(text, slice_bytes);
    const WireBytesView all(slices);
    EXPECT_EQ(all.size(), text.size());
    EXPECT_EQ(all.ToString(), text);
    WireBytesView part = all;
    part.RemovePrefix(123);
    EXPECT_EQ(part.Prefix(456).ToString(), text.substr(123, 456)) << slice_bytes;
  }
}

TEST(WireBytesTest, NothingHasNoFront) {
  EXPECT_TRUE(WireBytesView().front().empty());
  const std::vector<grpc::Slice> slices(3);
  EXPECT_TRUE(WireBytesView(slices).front().empty());
  EXPECT_EQ(WireBytesView(slices).ToString(), "");
}

TEST(WireReaderTest, ReadsWhatProtobufWrites) {
  v1::MergeRequest request;
  request.set_num_parts(3);
  request.set_rows(std::int64_t{1} << 40);
  request.set_head_dim_v(-1);
  request.set_out(Text(300));
  const std::string message = request.SerializeAsString();
  for (const std::size_t slice_bytes : {1, 2, 3, 5, 100, 1000}) {
    const std::vector<grpc::Slice> slices = Cut(message, slice_bytes);
    WireReader reader{WireBytesView(slices)};
    WireField field;
    ASSERT_TRUE(*reader.Next(&field));
    EXPECT_EQ(field.number, 1u);
    EXPECT_EQ(field.value, 3u);
    ASSERT_TRUE(*reader.Next(&field));
    EXPECT_EQ(field.value, std::uint64_t{1} << 40);
    ASSERT_TRUE(*reader.Next(&field));
    EXPECT_EQ(static_cast<std::int64_t>(field.value), -1);
    ASSERT_TRUE(*reader.Next(&field));
    EXPECT_EQ(field.number, 4u);
    EXPECT_EQ(field.type, WireType::kLengthDelimited);
    EXPECT_EQ(field.bytes.ToString(), request.out());
    EXPECT_FALSE(*reader.Next(&field));
  }
}

TEST(WireReaderTest, ReadsFixedWidthFields) {
  v1::AttentionSpec spec;
  spec.set_softcap(1.5f);
  v1::Timings timings;
  timings.set_queue_seconds(-2.25);
  const std::vector<grpc::Slice> slices =
      Cut(spec.SerializeAsString() + timings.SerializeAsString(), 2);
  WireReader reader{WireBytesView(slices)};
  WireField field;
  ASSERT_TRUE(*reader.Next(&field));
  const auto bits32 = static_cast<std::uint32_t>(field.value);
  float as_float;
  std::memcpy(&as_float, &bits32, sizeof(as_float));
  EXPECT_EQ(as_float, 1.5f);
  ASSERT_TRUE(*reader.Next(&field));
  double as_double;
  std::memcpy(&as_double, &field.value, sizeof(as_double));
  EXPECT_EQ(as_double, -2.25);
}

TEST(WireReaderTest, EveryPrefixOfAMessageIsReadOrRefused) {
  v1::AttendRequest request;
  request.mutable_spec()->set_batch_size(300);
  request.set_q(Text(40));
  request.set_bias(Text(3));
  const std::string message = request.SerializeAsString();
  int refused = 0;
  for (std::size_t size = 0; size < message.size(); ++size)
    refused += ErrorOf(message.substr(0, size)).ok() ? 0 : 1;
  // All prefixes but those that end with a field: none, the spec, and q.
  EXPECT_EQ(refused, static_cast<int>(message.size()) - 3);
  EXPECT_TRUE(ErrorOf(message).ok());
}

TEST(WireReaderTest, RefusesWhatIsNotAMessage) {
  EXPECT_THAT(ErrorOf("\x08").ToString(), HasSubstr("a varint is cut off at byte 1 of 1"));
  EXPECT_THAT(ErrorOf(absl::StrCat("\x08", std::string(10, '\xff'), "\x01")).ToString(),
              HasSubstr("a varint has more than 64 bits"));
  EXPECT_THAT(ErrorOf(absl::StrCat("\x08", std::string(9, '\x80'), "\x02")).ToString(),
              HasSubstr("a varint has more than 64 bits"));
  EXPECT_THAT(ErrorOf(std::string("\x0d\x01\x02\x03", 4)).ToString(),
              HasSubstr("a fixed-width value is cut off"));
  EXPECT_THAT(ErrorOf("\x12\x05"
                      "abcd")
                  .ToString(),
              HasSubstr("a field is longer than the message"));
  EXPECT_THAT(ErrorOf(absl::StrCat("\x12", std::string(9, '\xff'), "\x01")).ToString(),
              HasSubstr("a field is longer than the message"));
  EXPECT_THAT(ErrorOf("\x0b").ToString(), HasSubstr("a group"));
  EXPECT_THAT(ErrorOf("\x0c").ToString(), HasSubstr("a group"));
  EXPECT_THAT(ErrorOf("\x0e").ToString(), HasSubstr("unknown wire type"));
  EXPECT_THAT(ErrorOf("\x0f").ToString(), HasSubstr("unknown wire type"));
  EXPECT_THAT(ErrorOf(std::string(1, '\0')).ToString(),
              HasSubstr("a field number is out of range"));
  EXPECT_THAT(ErrorOf("\xf8\xff\xff\xff\x1f\x01").ToString(),
              HasSubstr("a field number is out of range"));
}

TEST(WireReaderTest, AcceptsTheLargestVarintAndFieldNumber) {
  EXPECT_TRUE(ErrorOf(absl::StrCat("\x08", std::string(9, '\xff'), "\x01")).ok());
  EXPECT_TRUE(ErrorOf("\xf8\xff\xff\xff\x0f\x01").ok());
}

TEST(WireWriterTest, WritesWhatProtobufReads) {
  const std::string large = Text(100000);
  const std::string small = Text(10);
  auto owner = std::make_shared<int>(0);
  const auto view = [](const std::string& s) {
    return absl::MakeConstSpan(reinterpret_cast<const std::byte*>(s.data()), s.size());
  };
  WireWriter chunk;
  chunk.AddVarint(v1::TensorChunk::kTensorFieldNumber, v1::TENSOR_ID_LSE);
  chunk.AddVarint(v1::TensorChunk::kOffsetBytesFieldNumber, std::uint64_t{1} << 41);
  chunk.AddBytesView(v1::TensorChunk::kDataFieldNumber, view(large), owner);
  WireWriter writer;
  writer.AddMessage(v1::AttendStreamResponse::kChunkFieldNumber, std::move(chunk));
  v1::AttendStreamResponse response;
  ASSERT_TRUE(response.ParseFromString(writer.TakeString()));
  EXPECT_EQ(response.chunk().tensor(), v1::TENSOR_ID_LSE);
  EXPECT_EQ(response.chunk().offset_bytes(), std::int64_t{1} << 41);
  EXPECT_EQ(response.chunk().data(), large);

  WireWriter several;
  several.AddBytesView(1, view(small), owner);
  several.AddBytesView(2, view(large), owner);
  several.AddBytesView(3, view(""), owner);
  v1::MergeResponse merged;
  ASSERT_TRUE(merged.ParseFromString(several.TakeString()));
  EXPECT_EQ(merged.out(), small);
  EXPECT_EQ(merged.lse(), large);
  EXPECT_EQ(several.size(), 0u);
}

TEST(WireWriterTest, KeepsTheOwnerUntilTheLastSliceIsGone) {
  const std::string large = Text(100000);
  auto owner = std::make_shared<int>(0);
  {
    WireWriter writer;
    writer.AddBytesView(
        1, absl::MakeConstSpan(reinterpret_cast<const std::byte*>(large.data()), large.size()),
        owner);
    const grpc::ByteBuffer buffer = writer.TakeByteBuffer();
    EXPECT_EQ(owner.use_count(), 2);
    std::vector<grpc::Slice> slices;
    ASSERT_TRUE(buffer.Dump(&slices).ok());
    EXPECT_EQ(static_cast<const void*>(slices.back().begin()), large.data())
        << "the bytes were copied";
  }
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(WireWriterTest, SmallBytesDoNotKeepTheOwner) {
  auto owner = std::make_shared<int>(0);
  const std::byte byte{1};
  WireWriter writer;
  writer.AddBytesView(1, absl::MakeConstSpan(&byte, 1), owner);
  const grpc::ByteBuffer buffer = writer.TakeByteBuffer();
  EXPECT_EQ(owner.use_count(), 1);
}

TEST(WireWriterTest, AnEmptyMessageIsAMessage) {
  WireWriter writer;
  grpc::ByteBuffer buffer = writer.TakeByteBuffer();
  EXPECT_TRUE(buffer.Valid());
  EXPECT_EQ(buffer.Length(), 0u);
  EXPECT_TRUE(ReceivedMessage::Take(&buffer).ok());
}

}  // namespace
}  // namespace attnd
