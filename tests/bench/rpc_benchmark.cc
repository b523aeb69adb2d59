// What the service costs beyond gRPC itself: each figure stands beside that of a bare gRPC server,
// measured in turns in the same run. Client and servers share the process; connections are loopback
// TCP.
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "grpcpp/generic/async_generic_service.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "server/device/device.h"
#include "server/engine/engine.h"
#include "server/rpc/wire_writer.h"
#include "tests/testing/in_process_server.h"

namespace attnd {
namespace {

using GenericStub = grpc::TemplatedGenericStub<grpc::ByteBuffer, grpc::ByteBuffer>;
using Clock = std::chrono::steady_clock;

constexpr char kAttend[] = "/attnd.v1.AttentionService/Attend";
constexpr char kAttendStream[] = "/attnd.v1.AttentionService/AttendStream";
constexpr char kBare[] = "/bare/Call";
constexpr std::int64_t kChunkBytes = 1 << 20;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// Takes messages, copies their bytes once, and answers with one empty message at the end.
class BareCall final : public grpc::ServerGenericBidiReactor {
 public:
  BareCall() { StartRead(&incoming_); }

 private:
  void OnReadDone(bool ok) override {
    if (!ok) return Answer();
    if (sink_.size() < incoming_.Length()) sink_.resize(incoming_.Length());
    std::vector<grpc::Slice> slices;
    incoming_.Dump(&slices);
    std::size_t offset = 0;
    for (const grpc::Slice& slice : slices) {
      std::memcpy(sink_.data() + offset, slice.begin(), slice.size());
      offset += slice.size();
    }
    incoming_.Clear();
    StartRead(&incoming_);
  }
  void Answer() {
    const grpc::Slice empty;
    outgoing_ = grpc::ByteBuffer(&empty, 1);
    StartWriteAndFinish(&outgoing_, grpc::WriteOptions(), grpc::Status::OK);
  }
  void OnDone() override { delete this; }

  std::vector<std::byte> sink_;
  grpc::ByteBuffer incoming_;
  grpc::ByteBuffer outgoing_;
};

class BareService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* /*context*/) override {
    return new BareCall();
  }
};

class BareServer {
 public:
  explicit BareServer(const RpcOptions& options) {
    grpc::ServerBuilder builder;
    ConfigureServerBuilder(builder, options);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }

  std::shared_ptr<grpc::Channel> NewChannel() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
  }

 private:
  BareService service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

struct Servers {
  Servers()
      : device(*CreateCpuDevice({})),
        engine(*CreateEngine({}, *device, nullptr)),
        attnd(engine.get(), RpcOptions()),
        bare(RpcOptions()) {}

  std::unique_ptr<Device> device;
  std::unique_ptr<Engine> engine;
  testing::InProcessServer attnd;
  BareServer bare;
};

Servers& SharedServers() {
  static auto* const kServers = [] {
    // As the daemon does: pages given back to the kernel are faulted in again for every message.
    mallopt(M_TRIM_THRESHOLD, 2'000'000'000);
    return new Servers();
  }();
  return *kServers;
}

class Latch {
 public:
  void Open(const grpc::Status& status) {
    const std::lock_guard lock(mu_);
    status_ = status;
    open_ = true;
    changed_.notify_one();
  }
  grpc::Status Wait() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [this] { return open_; });
    return status_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  bool open_ = false;
  grpc::Status status_;
};

// One unary call; its seconds, or a negative number if it failed.
double UnaryCall(GenericStub& stub, const char* method, const grpc::ByteBuffer& request) {
  const Clock::time_point start = Clock::now();
  grpc::ClientContext context;
  grpc::ByteBuffer response;
  Latch done;
  stub.UnaryCall(&context, method, grpc::StubOptions(), &request, &response,
                 [&](grpc::Status status) { done.Open(status); });
  return done.Wait().ok() ? SecondsSince(start) : -1;
}

// 1 KiB of q, and 1.5 KiB each of k and v.
grpc::ByteBuffer FourKibibyteRequest() {
  v1::AttendRequest request;
  v1::AttentionSpec& spec = *request.mutable_spec();
  spec.set_batch_size(1);
  spec.set_seqlen_q(4);
  spec.set_seqlen_k(6);
  spec.set_num_heads(1);
  spec.set_head_dim(64);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  request.set_q(std::string(4 * 64 * 4, '\0'));
  request.set_k(std::string(6 * 64 * 4, '\0'));
  request.set_v(request.k());
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

double Median(std::vector<double>& values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void BM_UnaryRoundTrip(benchmark::State& state) {
  Servers& servers = SharedServers();
  GenericStub attnd(servers.attnd.NewChannel());
  GenericStub bare(servers.bare.NewChannel());
  const grpc::ByteBuffer problem = FourKibibyteRequest();
  const grpc::Slice nothing;
  const grpc::ByteBuffer empty(&nothing, 1);
  std::vector<double> attend_seconds;
  std::vector<double> empty_seconds;
  for (auto _ : state) {
    empty_seconds.push_back(UnaryCall(bare, kBare, empty));
    attend_seconds.push_back(UnaryCall(attnd, kAttend, problem));
    if (empty_seconds.back() < 0 || attend_seconds.back() < 0)
      return state.SkipWithError("a call failed");
  }
  const double attend = Median(attend_seconds);
  const double bare_call = Median(empty_seconds);
  state.counters["attend_p50_us"] = attend * 1e6;
  state.counters["empty_p50_us"] = bare_call * 1e6;
  state.counters["ratio"] = attend / bare_call;
}
BENCHMARK(BM_UnaryRoundTrip)->Iterations(5000)->Unit(benchmark::kMicrosecond)->UseRealTime();

// Writes messages one after another, reads until the end.
class StreamingClient final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  StreamingClient(GenericStub& stub, const char* method,
                  const std::vector<grpc::ByteBuffer>& messages)
      : messages_(messages) {
    stub.PrepareBidiStreamingCall(&context_, method, grpc::StubOptions(), this);
    StartRead(&incoming_);
    Write();
    StartCall();
  }
  grpc::Status Wait() { return done_.Wait(); }
  // What the server says of where the time went; after Wait.
  const v1::Timings& timings() const { return timings_; }

 private:
  void Write() {
    if (next_ == messages_.size()) return StartWritesDone();
    StartWrite(&messages_[next_++]);
  }
  void OnWriteDone(bool ok) override {
    if (ok) Write();
  }
  void OnReadDone(bool ok) override {
    if (!ok) return;
    grpc::Slice message;
    v1::AttendStreamResponse response;
    if (incoming_.DumpToSingleSlice(&message).ok() &&
        response.ParseFromArray(message.begin(), static_cast<int>(message.size())) &&
        response.has_result()) {
      timings_ = response.result().timings();
    }
    StartRead(&incoming_);
  }
  void OnDone(const grpc::Status& status) override { done_.Open(status); }

  const std::vector<grpc::ByteBuffer>& messages_;
  std::size_t next_ = 0;
  grpc::ClientContext context_;
  grpc::ByteBuffer incoming_;
  v1::Timings timings_;
  Latch done_;
};

// A header and `bytes` each of k and v for one query.
std::vector<grpc::ByteBuffer> StreamedProblem(
    const std::shared_ptr<std::vector<std::byte>>& bytes) {
  v1::AttentionSpec spec;
  spec.set_batch_size(1);
  spec.set_seqlen_q(1);
  spec.set_seqlen_k(static_cast<std::int64_t>(bytes->size()) / (8 * 128 * 2));
  spec.set_num_heads(8);
  spec.set_head_dim(128);
  spec.set_dtype(v1::DATA_TYPE_BFLOAT16);
  std::vector<grpc::ByteBuffer> messages;
  WireWriter header;
  header.AddBytes(v1::AttendStreamRequest::kHeaderFieldNumber, spec.SerializeAsString());
  messages.push_back(header.TakeByteBuffer());
  const auto add_tensor = [&](v1::TensorId id, std::size_t size) {
    for (std::size_t offset = 0; offset < size; offset += kChunkBytes) {
      const std::size_t chunk_bytes = std::min<std::size_t>(kChunkBytes, size - offset);
      WireWriter chunk;
      chunk.AddVarint(v1::TensorChunk::kTensorFieldNumber, id);
      chunk.AddVarint(v1::TensorChunk::kOffsetBytesFieldNumber, offset);
      chunk.AddBytesView(v1::TensorChunk::kDataFieldNumber,
                         absl::MakeConstSpan(*bytes).subspan(offset, chunk_bytes), bytes);
      WireWriter message;
      message.AddMessage(v1::AttendStreamRequest::kChunkFieldNumber, std::move(chunk));
      messages.push_back(message.TakeByteBuffer());
    }
  };
  add_tensor(v1::TENSOR_ID_Q, 8 * 128 * 2);
  add_tensor(v1::TENSOR_ID_K, bytes->size());
  add_tensor(v1::TENSOR_ID_V, bytes->size());
  return messages;
}

// Seconds that sending `messages` over every stub at once takes, or a negative number if one
// failed. `timings` gets those of the first.
double StreamAll(const std::vector<std::unique_ptr<GenericStub>>& stubs, const char* method,
                 const std::vector<grpc::ByteBuffer>& messages, v1::Timings* timings = nullptr) {
  const Clock::time_point start = Clock::now();
  std::vector<std::unique_ptr<StreamingClient>> clients;
  for (const auto& stub : stubs)
    clients.push_back(std::make_unique<StreamingClient>(*stub, method, messages));
  bool ok = true;
  for (const auto& client : clients) ok = client->Wait().ok() && ok;
  if (timings != nullptr) *timings = clients.front()->timings();
  return ok ? SecondsSince(start) : -1;
}

void BM_StreamBytes(benchmark::State& state) {
  Servers& servers = SharedServers();
  const auto connections = static_cast<int>(state.range(0));
  const auto bytes = std::make_shared<std::vector<std::byte>>(32 << 20);
  const std::vector<grpc::ByteBuffer> messages = StreamedProblem(bytes);
  std::vector<std::unique_ptr<GenericStub>> attnd;
  std::vector<std::unique_ptr<GenericStub>> bare;
  for (int i = 0; i < connections; ++i) {
    attnd.push_back(std::make_unique<GenericStub>(servers.attnd.NewChannel()));
    bare.push_back(std::make_unique<GenericStub>(servers.bare.NewChannel()));
  }
  double attend_seconds = 0;
  double bare_seconds = 0;
  double copy_seconds = 0;
  double compute_seconds = 0;
  for (auto _ : state) {
    const double sink = StreamAll(bare, kBare, messages);
    v1::Timings timings;
    const double attend = StreamAll(attnd, kAttendStream, messages, &timings);
    if (sink < 0 || attend < 0) return state.SkipWithError("a call failed");
    bare_seconds += sink;
    attend_seconds += attend;
    copy_seconds += timings.copy_in_seconds();
    compute_seconds += timings.compute_seconds();
  }
  const double total = 2.0 * static_cast<double>(bytes->size()) * connections *
                       static_cast<double>(state.iterations());
  state.counters["attend_GBps"] = total / attend_seconds / 1e9;
  state.counters["sink_GBps"] = total / bare_seconds / 1e9;
  state.counters["ratio"] = bare_seconds / attend_seconds;
  const double calls = static_cast<double>(state.iterations());
  state.counters["copy_in_ms"] = copy_seconds / calls * 1e3;
  state.counters["compute_ms"] = compute_seconds / calls * 1e3;
}
BENCHMARK(BM_StreamBytes)
    ->Arg(1)
    ->Arg(2)
    ->Arg(8)
    ->Iterations(10)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace attnd
