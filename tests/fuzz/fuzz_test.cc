// Runs the fuzz targets on sound messages and on tens of thousands of damaged ones, the same in
// every run: what a fuzzer would do, for builds without one. Meant for the sanitizers.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "attnd/v1/attention.pb.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/mutator.h"
#include "tests/testing/problem.h"
#include "tests/testing/problem_request.h"

namespace attnd::fuzz {
namespace {

using testing::Layout;
using testing::Problem;
using testing::ProblemSpec;
using testing::ScoreArray;
using testing::Slopes;

constexpr int kRounds = 1500;  // of each kind and seed

// Small requests that between them use every option.
std::vector<v1::AttendRequest> Seeds() {
  ProblemSpec dense;
  dense.batch_size = 2;
  dense.seqlen_q = 2;
  dense.seqlen_k = 3;
  dense.num_heads = 2;
  dense.head_dim = 8;
  dense.dtype = DataType::kFloat16;
  dense.causal = true;
  dense.window_left = 1;
  dense.mask = ScoreArray::kFull;
  dense.bias = ScoreArray::kPerHead;
  dense.alibi = Slopes::kPerBatchAndHead;
  dense.sinks = true;
  dense.softcap = 3.0f;
  dense.probs = true;
  dense.lengths_k = {3, 1};

  ProblemSpec packed;
  packed.layout = Layout::kPacked;
  packed.batch_size = 3;
  packed.rooms_q = {2, 0, 3};
  packed.rooms_k = {1, 4, 2};
  packed.seqlen_q = 3;
  packed.seqlen_k = 4;
  packed.num_heads = 2;
  packed.num_kv_heads = 2;
  packed.head_dim = 8;
  packed.head_dim_v = 16;
  packed.lengths_q = {1, 0, 3};

  std::vector<v1::AttendRequest> seeds;
  for (ProblemSpec* spec : {&dense, &packed}) {
    Problem problem(*spec);
    seeds.push_back(testing::RequestOf(problem));
  }
  return seeds;
}

void FeedRequest(const v1::AttendRequest& request, char slicing) {
  const std::string input = slicing + request.SerializeAsString();
  FuzzAttendRequest(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string WithLength(const std::string& message) {
  std::string input;
  input.push_back(static_cast<char>(message.size() & 0xff));
  input.push_back(static_cast<char>(message.size() >> 8));
  return input + message;
}

// The request as a stream of chunks of at most `chunk_bytes`.
std::vector<v1::AttendStreamRequest> StreamOf(const v1::AttendRequest& request,
                                              std::size_t chunk_bytes) {
  std::vector<v1::AttendStreamRequest> messages(1);
  *messages[0].mutable_header() = request.spec();
  const std::string* const tensors[] = {&request.q(), &request.k(), &request.v(), &request.mask(),
                                        &request.bias()};
  for (int t = 0; t < 5; ++t) {
    for (std::size_t offset = 0; offset < tensors[t]->size(); offset += chunk_bytes) {
      v1::TensorChunk& chunk = *messages.emplace_back().mutable_chunk();
      chunk.set_tensor(static_cast<v1::TensorId>(v1::TENSOR_ID_Q + t));
      chunk.set_offset_bytes(static_cast<std::int64_t>(offset));
      chunk.set_data(tensors[t]->substr(offset, chunk_bytes));
    }
  }
  return messages;
}

void FeedStream(const std::vector<v1::AttendStreamRequest>& messages,
                const std::function<void(std::string&)>& damage) {
  std::string input;
  for (const v1::AttendStreamRequest& message : messages)
    input += WithLength(message.SerializeAsString());
  damage(input);
  FuzzAttendStream(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

TEST(FuzzTest, SoundRequestsInSlicesOfEverySize) {
  for (const v1::AttendRequest& seed : Seeds()) {
    for (int slicing = 0; slicing < 256; slicing += 5)
      FeedRequest(seed, static_cast<char>(slicing));
  }
}

TEST(FuzzTest, RequestsWithDamagedBytes) {
  Mutator mutator(1);
  for (const v1::AttendRequest& seed : Seeds()) {
    for (int round = 0; round < kRounds; ++round) {
      std::string input = static_cast<char>(round) + seed.SerializeAsString();
      mutator.MutateBytes(input);
      FuzzAttendRequest(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    }
  }
}

TEST(FuzzTest, RequestsWithOtherSpecs) {
  Mutator mutator(2);
  for (const v1::AttendRequest& seed : Seeds()) {
    for (int round = 0; round < 4 * kRounds; ++round) {
      v1::AttendRequest request = seed;
      for (std::size_t count = 1 + mutator.Index(3); count > 0; --count)
        mutator.MutateSpec(*request.mutable_spec());
      FeedRequest(request, static_cast<char>(round));
    }
  }
}

TEST(FuzzTest, StreamsInChunksOfEverySizeAndOrder) {
  Mutator mutator(3);
  for (const v1::AttendRequest& seed : Seeds()) {
    for (std::size_t chunk_bytes = 1; chunk_bytes < 100; ++chunk_bytes) {
      std::vector<v1::AttendStreamRequest> messages = StreamOf(seed, chunk_bytes);
      for (std::size_t i = 1; i < messages.size(); ++i) {
        std::swap(messages[i], messages[i + mutator.Index(messages.size() - i)]);
      }
      FeedStream(messages, [](std::string&) {});
    }
  }
}

TEST(FuzzTest, StreamsWithDamagedChunks) {
  Mutator mutator(4);
  for (const v1::AttendRequest& seed : Seeds()) {
    for (int round = 0; round < kRounds; ++round) {
      std::vector<v1::AttendStreamRequest> messages = StreamOf(seed, 1 + mutator.Index(64));
      v1::AttendStreamRequest& message = messages[mutator.Index(messages.size())];
      switch (mutator.Index(4)) {
        case 0:
          mutator.MutateBytes(*message.mutable_chunk()->mutable_data());
          break;
        case 1:
          message.mutable_chunk()->set_offset_bytes(static_cast<std::int64_t>(mutator.Index(70)) -
                                                    3);
          break;
        case 2:
          message = messages[mutator.Index(messages.size())];
          break;
        default:
          mutator.MutateSpec(*messages[0].mutable_header());
      }
      FeedStream(messages, [](std::string&) {});
    }
  }
}

TEST(FuzzTest, StreamsWithDamagedBytes) {
  Mutator mutator(5);
  for (const v1::AttendRequest& seed : Seeds()) {
    const std::vector<v1::AttendStreamRequest> messages = StreamOf(seed, 32);
    for (int round = 0; round < kRounds; ++round) {
      FeedStream(messages, [&](std::string& input) { mutator.MutateBytes(input); });
    }
  }
}

TEST(FuzzTest, HttpRequestsWithDamagedBytes) {
  Mutator mutator(6);
  for (const char* seed : {"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n",
                           "HEAD http://a:8002/metrics?x=1 HTTP/1.0\r\n\r\nbody"}) {
    for (int round = 0; round < 4 * kRounds; ++round) {
      std::string input = static_cast<char>(round) + std::string(seed);
      mutator.MutateBytes(input);
      FuzzHttpRequest(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
    }
  }
}

}  // namespace
}  // namespace attnd::fuzz
