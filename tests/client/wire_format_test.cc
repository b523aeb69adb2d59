#include "client/cpp/wire_format.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace attnd::internal {
namespace {

std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// The bytes in slices of `slice_bytes`, as they may arrive from a network.
grpc::ByteBuffer Buffer(const std::string& bytes, std::size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (std::size_t at = 0; at < bytes.size(); at += slice_bytes) {
    slices.emplace_back(bytes.substr(at, slice_bytes));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string Flatten(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(buffer.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

std::string Contents(const grpc::ByteBuffer& message, BytesField field) {
  std::string contents(field.size, '\0');
  EXPECT_TRUE(
      CopyBytes(message, field, std::as_writable_bytes(std::span(contents.data(), field.size)))
          .ok());
  return contents;
}

v1::AttendResponse SomeResponse() {
  v1::AttendResponse response;
  response.mutable_result()->set_kernel("cpu_fused");
  response.mutable_result()->set_out_bytes(300);
  response.set_out(std::string(300, 'o'));
  response.set_lse("lse!");
  return response;
}

TEST(WireFormatTest, AChunkReadsBackThroughProtocolBuffers) {
  const std::string data(100'000, 'x');
  LentMemory lent;
  v1::AttendStreamRequest message;
  ASSERT_TRUE(message.ParseFromString(
      Flatten(EncodeChunk(v1::TENSOR_ID_V, 1LL << 40, AsBytes(data), lent))));
  EXPECT_EQ(message.chunk().tensor(), v1::TENSOR_ID_V);
  EXPECT_EQ(message.chunk().offset_bytes(), 1LL << 40);
  EXPECT_EQ(message.chunk().data(), data);
}

TEST(WireFormatTest, AMessageReadsBackThroughProtocolBuffers) {
  v1::MergeRequest sizes;
  sizes.set_rows(3);
  const std::string out(1000, 'y');
  LentMemory lent;
  MessageBuilder builder(lent);
  builder.AddFields(sizes);
  builder.AddBytesField(v1::MergeRequest::kOutFieldNumber, AsBytes(out));
  builder.AddBytesField(v1::MergeRequest::kLseFieldNumber, {});
  v1::MergeRequest message;
  ASSERT_TRUE(message.ParseFromString(Flatten(builder.Build())));
  EXPECT_EQ(message.rows(), 3);
  EXPECT_EQ(message.out(), out);
  EXPECT_EQ(message.lse(), "");
}

TEST(WireFormatTest, TensorsAreSentFromWhereTheyLie) {
  const std::string data(1000, 'z');
  LentMemory lent;
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(EncodeChunk(v1::TENSOR_ID_Q, 0, AsBytes(data), lent).Dump(&slices).ok());
  ASSERT_EQ(slices.size(), 2u);
  EXPECT_EQ(static_cast<const void*>(slices[1].begin()), data.data());
}

TEST(WireFormatTest, TensorsOfAResponseAreFoundWhateverTheSlices) {
  const v1::AttendResponse response = SomeResponse();
  for (const std::size_t slice_bytes : {1, 2, 3, 7, 64, 1000}) {
    grpc::ByteBuffer buffer = Buffer(response.SerializeAsString(), slice_bytes);
    const auto parts = ParseAttendResponse(buffer);
    ASSERT_TRUE(parts.ok()) << parts.status();
    EXPECT_EQ(parts->result.kernel(), "cpu_fused");
    EXPECT_EQ(Contents(buffer, parts->out), response.out());
    EXPECT_EQ(Contents(buffer, parts->lse), "lse!");
    EXPECT_EQ(parts->probs.size, 0);
  }
}

TEST(WireFormatTest, FieldsMayComeInAnyOrderAndUnknownOnesAreSkipped) {
  // data, an unknown varint field 9, offset, tensor; inside field 2 of the response.
  const std::string chunk = std::string("\x1a\x02hi", 4) + "\x48\x05" + "\x10\x07" + "\x08\x06";
  const std::string message = std::string("\x12") + static_cast<char>(chunk.size()) + chunk;
  grpc::ByteBuffer buffer = Buffer(message, 3);
  const auto parts = ParseStreamResponse(buffer);
  ASSERT_TRUE(parts.ok()) << parts.status();
  EXPECT_EQ(parts->tensor, v1::TENSOR_ID_OUT);
  EXPECT_EQ(parts->offset_bytes, 7);
  EXPECT_EQ(Contents(buffer, parts->data), "hi");
}

TEST(WireFormatTest, AMessageCutShortIsAnError) {
  const std::string bytes = SomeResponse().SerializeAsString();
  int refused = 0;
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    grpc::ByteBuffer buffer = Buffer(bytes.substr(0, size), 16);
    const auto parts = ParseAttendResponse(buffer);
    v1::AttendResponse expected;
    EXPECT_EQ(parts.ok(), expected.ParseFromString(bytes.substr(0, size))) << size;
    refused += !parts.ok();
  }
  EXPECT_GT(refused, 300);
}

// Whatever the bytes: no crash, and nothing is found outside the message.
TEST(WireFormatTest, DamagedMessagesStayWithinTheirBytes) {
  v1::AttendStreamResponse chunk;
  chunk.mutable_chunk()->set_tensor(v1::TENSOR_ID_OUT);
  chunk.mutable_chunk()->set_offset_bytes(123456789);
  chunk.mutable_chunk()->set_data(std::string(40, 'd'));
  const std::string bases[] = {SomeResponse().SerializeAsString(), chunk.SerializeAsString()};
  std::mt19937 random(7);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = bases[round % 2];
    for (int change = 0; change < 3; ++change) {
      bytes[random() % std::min<std::size_t>(bytes.size(), 40)] = static_cast<char>(random());
    }
    grpc::ByteBuffer buffer = Buffer(bytes, 1 + random() % 50);
    const auto within = [&](BytesField field) {
      return field.position >= 0 && field.size >= 0 &&
             field.position + field.size <= static_cast<std::int64_t>(bytes.size());
    };
    if (const auto parts = ParseAttendResponse(buffer); parts.ok()) {
      ASSERT_TRUE(within(parts->out) && within(parts->lse) && within(parts->probs));
    }
    if (const auto parts = ParseStreamResponse(buffer); parts.ok()) {
      ASSERT_TRUE(within(parts->data));
    }
    if (const auto parts = ParseMergeResponse(buffer); parts.ok()) {
      ASSERT_TRUE(within(parts->out) && within(parts->lse));
    }
  }
}

}  // namespace
}  // namespace attnd::internal
