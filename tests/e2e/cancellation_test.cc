// Callers that give up: whatever they had is given back, whenever they go.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "grpcpp/grpcpp.h"
#include "tests/e2e/device_service.h"

namespace attnd::e2e {
namespace {

constexpr int kCallers = 8;
constexpr int kCallsPerCaller = 250;

// One sequence of `seqlen`; what its tensors hold is of no concern.
v1::AttendRequest Request(std::int64_t seqlen) {
  v1::AttendRequest request;
  v1::AttentionSpec& spec = *request.mutable_spec();
  spec.set_batch_size(1);
  spec.set_seqlen_q(seqlen);
  spec.set_seqlen_k(seqlen);
  spec.set_num_heads(2);
  spec.set_head_dim(64);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  request.set_q(std::string(seqlen * 2 * 64 * 4, '\0'));
  request.set_k(request.q());
  request.set_v(request.q());
  return request;
}

// Makes calls that end early. Deterministic in what it does, not in when the server notices.
class FickleCaller {
 public:
  FickleCaller(const testing::InProcessServer& server, std::uint64_t seed)
      : stub_(v1::AttentionService::NewStub(server.NewChannel())), random_(seed) {}

  void Call() {
    const std::int64_t seqlen = 1 + static_cast<std::int64_t>(random_() % 600);
    switch (random_() % 4) {
      case 0:
        return ExpiringUnary(seqlen);
      case 1:
        return CancelledUnary(seqlen);
      case 2:
        return ExpiringStream(seqlen);
      default:
        return CancelledStream(seqlen);
    }
  }

 private:
  void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(std::chrono::system_clock::now() +
                         std::chrono::microseconds(random_() % 8000));
  }

  void ExpiringUnary(std::int64_t seqlen) {
    grpc::ClientContext context;
    SetDeadline(context);
    v1::AttendResponse response;
    stub_->Attend(&context, Request(seqlen), &response);
  }

  void CancelledUnary(std::int64_t seqlen) {
    grpc::ClientContext context;
    const auto delay = std::chrono::microseconds(random_() % 4000);
    std::thread canceller([&] {
      std::this_thread::sleep_for(delay);
      context.TryCancel();
    });
    v1::AttendResponse response;
    stub_->Attend(&context, Request(seqlen), &response);
    canceller.join();
  }

  // Sends the header and the first `count` chunks of 16 KiB.
  void SendChunks(
      grpc::ClientReaderWriter<v1::AttendStreamRequest, v1::AttendStreamResponse>& stream,
      const v1::AttendRequest& request, std::size_t count) {
    constexpr std::size_t kChunkBytes = 16 << 10;
    v1::AttendStreamRequest message;
    *message.mutable_header() = request.spec();
    if (!stream.Write(message)) return;
    const std::string* const tensors[] = {&request.q(), &request.k(), &request.v()};
    for (int t = 0; t < 3; ++t) {
      for (std::size_t offset = 0; offset < tensors[t]->size(); offset += kChunkBytes) {
        if (count-- == 0) return;
        message.mutable_chunk()->set_tensor(static_cast<v1::TensorId>(v1::TENSOR_ID_Q + t));
        message.mutable_chunk()->set_offset_bytes(static_cast<std::int64_t>(offset));
        message.mutable_chunk()->set_data(tensors[t]->substr(offset, kChunkBytes));
        if (!stream.Write(message)) return;
      }
    }
  }

  void ExpiringStream(std::int64_t seqlen) {
    grpc::ClientContext context;
    SetDeadline(context);
    const auto stream = stub_->AttendStream(&context);
    SendChunks(*stream, Request(seqlen), random_() % 40);
    v1::AttendStreamResponse response;
    while (stream->Read(&response)) {
    }
    stream->Finish();
  }

  // Cancels after some chunks were sent, and perhaps some results read.
  void CancelledStream(std::int64_t seqlen) {
    grpc::ClientContext context;
    const auto stream = stub_->AttendStream(&context);
    const bool all = random_() % 2 == 0;
    SendChunks(*stream, Request(seqlen), all ? 1000 : random_() % 4);
    v1::AttendStreamResponse response;
    for (std::size_t reads = all ? random_() % 3 : 0; reads > 0 && stream->Read(&response);
         --reads) {
    }
    context.TryCancel();
    while (stream->Read(&response)) {
    }
    stream->Finish();
  }

  const std::unique_ptr<v1::AttentionService::Stub> stub_;
  std::mt19937_64 random_;
};

using CancellationTest = DeviceServiceTest;

INSTANTIATE_TEST_SUITE_P(Memory, CancellationTest, ::testing::ValuesIn(UnifiedMemoryKinds()),
                         [](const auto& memory) { return MemoryName(memory.param); });

TEST_P(CancellationTest, TwoThousandCallersWhoGiveUpLeaveNothingBehind) {
  RpcOptions options;
  options.stream_chunk_bytes = 8 << 10;
  DeviceService& service = Serve(options);
  const std::int64_t used_before = service.used_bytes();
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, caller] {
      FickleCaller fickle(*service.server, caller);
      for (int i = 0; i < kCallsPerCaller; ++i) fickle.Call();
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(service.used_bytes_when_idle(), used_before);

  grpc::ClientContext context;
  v1::AttendResponse response;
  const grpc::Status status = service.stub().Attend(&context, Request(16), &response);
  EXPECT_TRUE(status.ok()) << status.error_message();
  // Calls end a moment after their callers have gone.
  const AttentionService& rpc = service.server->service();
  while (rpc.waiting_bytes() + rpc.sending_bytes() > 0) absl::SleepFor(absl::Milliseconds(1));
}

TEST_P(CancellationTest, AServerThatStopsUnderLoadStopsCleanly) {
  const DeviceService& service = Serve();
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&, stub = v1::AttentionService::NewStub(service.server->NewChannel())] {
      while (!stop) {
        grpc::ClientContext context;
        v1::AttendResponse response;
        if (!stub->Attend(&context, Request(200), &response).ok()) return;
      }
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  StopServing();
  stop = true;
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace attnd::e2e
