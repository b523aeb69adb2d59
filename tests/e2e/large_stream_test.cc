// A tensor of more than 2 GiB through the whole service: no size or offset on its way is 32 bits
// wide.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "grpcpp/grpcpp.h"
#include "kernels/data_type.h"
#include "tests/e2e/device_service.h"

namespace attnd::e2e {
namespace {

constexpr std::int64_t kHeadDim = 256;
constexpr std::int64_t kHeadDimV = 8;
constexpr std::int64_t kKeyBytes = kHeadDim * 2;
constexpr std::int64_t kSeqlenK =
    (std::int64_t{1} << 31) / kKeyBytes + 2048;  // of which the last lies beyond 2 GiB
// Of staging, and of the device, which holds all of it too where it has memory of its own.
constexpr std::int64_t kMemoryBytes = std::int64_t{5} << 29;
constexpr std::size_t kChunkBytes = 4 << 20;

using Stream = grpc::ClientReaderWriter<v1::AttendStreamRequest, v1::AttendStreamResponse>;

std::string BFloat16s(std::int64_t count, float value) {
  std::string bytes(count * 2, '\0');
  for (std::int64_t i = 0; i < count; ++i)
    StoreElement(bytes.data(), DataType::kBFloat16, i, value);
  return bytes;
}

void SendChunk(Stream& stream, v1::TensorId tensor, std::int64_t offset, std::string data) {
  v1::AttendStreamRequest message;
  message.mutable_chunk()->set_tensor(tensor);
  message.mutable_chunk()->set_offset_bytes(offset);
  message.mutable_chunk()->set_data(std::move(data));
  ASSERT_TRUE(stream.Write(message));
}

// Sends kSeqlenK rows of `row_bytes`: zeros, but for `last_row`.
void SendRows(Stream& stream, v1::TensorId tensor, std::int64_t row_bytes,
              const std::string& last_row) {
  const std::int64_t last_offset = (kSeqlenK - 1) * row_bytes;
  for (std::int64_t offset = 0; offset < last_offset; offset += kChunkBytes) {
    SendChunk(stream, tensor, offset,
              std::string(std::min<std::int64_t>(kChunkBytes, last_offset - offset), '\0'));
  }
  SendChunk(stream, tensor, last_offset, last_row);
}

// One query of ones that the last key alone answers, with a score of 256 against 0; its value is 3.
TEST(LargeStreamTest, TheLastKeyBeyondTwoGibibytesIsSeen) {
  std::unique_ptr<Device> device = DeviceOrSkip(kMemoryBytes, kMemoryBytes);
  if (device == nullptr) return;
  const bool unified_memory = device->info().unified_memory;
  DeviceService service(std::move(device), unified_memory, RpcOptions(), EngineOptions());

  grpc::ClientContext context;
  const auto stream = service.stub().AttendStream(&context);
  v1::AttendStreamRequest header;
  v1::AttentionSpec& spec = *header.mutable_header();
  spec.set_batch_size(1);
  spec.set_seqlen_q(1);
  spec.set_seqlen_k(kSeqlenK);
  spec.set_num_heads(1);
  spec.set_head_dim(kHeadDim);
  spec.set_head_dim_v(kHeadDimV);
  spec.set_dtype(v1::DATA_TYPE_BFLOAT16);
  spec.set_softmax_scale(1.0f);
  ASSERT_TRUE(stream->Write(header));
  SendRows(*stream, v1::TENSOR_ID_V, kHeadDimV * 2, BFloat16s(kHeadDimV, 3.0f));
  SendRows(*stream, v1::TENSOR_ID_K, kKeyBytes, BFloat16s(kHeadDim, 1.0f));
  SendChunk(*stream, v1::TENSOR_ID_Q, 0, BFloat16s(kHeadDim, 1.0f));

  std::string out;
  v1::AttendStreamResponse response;
  while (stream->Read(&response)) out += response.chunk().data();
  const grpc::Status status = stream->Finish();
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(out, BFloat16s(kHeadDimV, 3.0f));
}

}  // namespace
}  // namespace attnd::e2e
