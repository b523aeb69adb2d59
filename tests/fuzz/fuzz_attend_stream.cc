#include <algorithm>
#include <array>
#include <string>
#include <variant>
#include <vector>

#include "server/engine/attention_plan.h"
#include "server/rpc/attend_messages.h"
#include "server/rpc/chunk_assembler.h"
#include "server/rpc/request_validator.h"
#include "server/rpc/tensor_bytes.h"
#include "tests/fuzz/fuzz_targets.h"
#include "tests/fuzz/invariant.h"

namespace attnd::fuzz {
namespace {

constexpr std::int64_t kMaxTensorBytes = 1 << 16;

// Takes messages off the front of the input.
class Messages {
 public:
  Messages(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}

  bool Next(std::vector<grpc::Slice>* slices) {
    if (left_ < 2) return false;
    const std::size_t size = std::min<std::size_t>(data_[0] | data_[1] << 8, left_ - 2);
    // Two slices, so that values cross a boundary.
    slices->clear();
    slices->emplace_back(data_ + 2, size / 2);
    slices->emplace_back(data_ + 2 + size / 2, size - size / 2);
    data_ += 2 + size;
    left_ -= 2 + size;
    return true;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

// The bytes of each tensor and which of them came, kept in the simplest way.
class Model {
 public:
  explicit Model(const AttentionProblem& problem) {
    for (int i = 0; i < kNumInputTensors; ++i) {
      const std::int64_t bytes = TensorBytes(problem, static_cast<InputTensor>(i));
      expected_[i].resize(bytes);
      came_[i].resize(bytes);
      actual_[i].resize(bytes);
    }
  }

  ChunkAssembler::Destinations destinations() {
    ChunkAssembler::Destinations destinations;
    for (int i = 0; i < kNumInputTensors; ++i) destinations[i] = absl::MakeSpan(actual_[i]);
    return destinations;
  }

  // Whether the chunk is to be accepted. Takes it if so.
  bool Add(const TensorChunkView& chunk) {
    std::vector<bool>& came = came_[static_cast<int>(chunk.tensor)];
    const auto room = static_cast<std::int64_t>(came.size());
    const auto size = static_cast<std::int64_t>(chunk.data.size());
    if (chunk.offset_bytes < 0 || chunk.offset_bytes > room || size > room - chunk.offset_bytes)
      return false;
    const auto begin = came.begin() + chunk.offset_bytes;
    if (std::find(begin, begin + size, true) != begin + size) return false;
    std::fill(begin, begin + size, true);
    const std::string data = chunk.data.ToString();
    std::transform(data.begin(), data.end(),
                   expected_[static_cast<int>(chunk.tensor)].begin() + chunk.offset_bytes,
                   [](char c) { return static_cast<std::byte>(c); });
    return true;
  }

  bool complete() const {
    return std::all_of(came_.begin(), came_.end(), [](const std::vector<bool>& came) {
      return std::find(came.begin(), came.end(), false) == came.end();
    });
  }
  bool equal() const { return expected_ == actual_; }

 private:
  std::array<std::vector<std::byte>, kNumInputTensors> expected_;
  std::array<std::vector<std::byte>, kNumInputTensors> actual_;
  std::array<std::vector<bool>, kNumInputTensors> came_;
};

void FuzzChunks(const AttentionProblem& problem, Messages& messages) {
  Model model(problem);
  ChunkAssembler assembler(model.destinations());
  std::vector<grpc::Slice> slices;
  while (messages.Next(&slices)) {
    const absl::StatusOr<AttendStreamRequestView> request =
        ReadAttendStreamRequest(WireBytesView(slices));
    if (!request.ok()) return;
    const auto* const chunk = std::get_if<TensorChunkView>(&*request);
    if (chunk == nullptr) return;
    const bool accepted = assembler.Add(*chunk).ok();
    CheckInvariant(accepted == model.Add(*chunk), "a chunk is accepted just if it fits and is new");
    CheckInvariant(assembler.complete() == model.complete(), "complete just if every byte came");
    if (!accepted) return;
  }
  CheckInvariant(model.equal(), "every byte is where it belongs");
  if (!assembler.complete())
    CheckInvariant(!assembler.MissingError().ok(), "what is missing has a name");
}

}  // namespace

void FuzzAttendStream(const std::uint8_t* data, std::size_t size) {
  Messages messages(data, size);
  std::vector<grpc::Slice> slices;
  if (!messages.Next(&slices)) return;
  const absl::StatusOr<AttendStreamRequestView> request =
      ReadAttendStreamRequest(WireBytesView(slices));
  if (!request.ok()) return;
  const auto* const spec = std::get_if<v1::AttentionSpec>(&*request);
  if (spec == nullptr) return;
  const absl::StatusOr<AttentionProblem> problem = ProblemFromSpec(*spec, RequestLimits());
  if (!problem.ok()) return;
  for (int i = 0; i < kNumInputTensors; ++i) {
    if (TensorBytes(*problem, static_cast<InputTensor>(i)) > kMaxTensorBytes) return;
  }
  FuzzChunks(*problem, messages);
}

}  // namespace attnd::fuzz
