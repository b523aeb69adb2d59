#include "kernels/cpu/fused_attention.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "absl/strings/str_cat.h"
#include "kernels/attention_shape.h"
#include "kernels/attention_work.h"
#include "kernels/cpu/fused_tile.h"
#include "kernels/cpu/without_probs.h"

namespace attnd::cpu {
namespace {

// Keys of one part where a sequence is split over its keys: long enough that merging costs little,
// short enough that one sequence of a few thousand keys keeps several cores busy.
constexpr std::int64_t kSplitKeys = 512;
static_assert(kSplitKeys % kKeyTile == 0);
// The most packed rows (query rows x heads that share a key/value head) of a sequence that counts
// as decoding: it is split over its keys, and they are read where they lie. From about this many
// rows on packed tiles are as fast.
constexpr std::int64_t kFewRows = 32;
// The cost (see AttentionCost) below which handing tasks to other threads takes longer than it
// saves.
constexpr double kSerialCost = 1e6;

std::int64_t CeilDivide(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Plans of sequences are made when they are wanted, from the place of every kPlaceStride-th: what a
// batch of a million short ones takes is not to outgrow the request.
constexpr std::int64_t kPlaceStride = 16;

// What the sequences before one come to, over all key/value heads.
struct Place {
  std::int64_t first_task = 0;
  std::int64_t first_part = 0;  // of those that are split
};

// How one sequence and key/value head is cut into tasks. Whether keys are split is a matter of the
// sequence's own shape.
struct SequencePlan {
  std::int64_t sequence = 0;
  SequenceBounds bounds;
  bool few_rows = false;
  std::int64_t tile_rows = 0;
  std::int64_t num_row_tiles = 0;
  std::int64_t num_splits = 1;  // above 1: over keys, and num_row_tiles == 1
  Place place;
};

class FusedRun {
 public:
  FusedRun(const AttentionParams& p, const ExecutionContext& context)
      : p_(p), parallel_for_(context.parallel_for), parts_(static_cast<float*>(context.workspace)) {
    group_ = p.num_heads / p.num_kv_heads;
    const std::int64_t rows = std::min(p.seqlen_q * group_, kFewRows);
    part_floats_ = PartialStateFloats(rows, p.head_dim_v);
    PlanSequences();
  }

  void Run() {
    ForEach(num_tasks_, [this](std::int64_t task) { RunTask(task); });
    if (num_parts_ == 0) return;
    ForEach(p_.batch_size * p_.num_kv_heads, [this](std::int64_t i) {
      MergeSequence(PlanOf(i / p_.num_kv_heads), i % p_.num_kv_heads);
    });
  }

  std::int64_t WorkspaceBytes() const {
    return num_parts_ * part_floats_ * SizeOf(DataType::kFloat32);
  }

 private:
  void PlanSequences();
  std::int64_t WantedTileRows(std::int64_t total_rows) const;
  SequencePlan MakePlan(std::int64_t sequence, const Place& place) const;
  Place PlaceAfter(const SequencePlan& plan) const;
  SequencePlan PlanOf(std::int64_t sequence) const;
  SequencePlan PlanWithTask(std::int64_t task) const;
  void RunTask(std::int64_t task);
  void MergeSequence(const SequencePlan& plan, std::int64_t kv_head);

  void ForEach(std::int64_t num_tasks, absl::FunctionRef<void(std::int64_t)> task) {
    if (parallel_for_ && num_tasks > 1 && AttentionCost(p_) > kSerialCost)
      return parallel_for_->Run(num_tasks, task);
    for (std::int64_t i = 0; i < num_tasks; ++i) task(i);
  }

  float* PartAt(const SequencePlan& plan, std::int64_t kv_head, std::int64_t split) const {
    return parts_ + (plan.place.first_part + kv_head * plan.num_splits + split) * part_floats_;
  }

  const AttentionParams& p_;
  ParallelFor* const parallel_for_;
  float* const parts_;
  std::int64_t group_ = 1;
  std::int64_t part_floats_ = 0;
  std::int64_t num_tasks_ = 0;
  std::int64_t num_parts_ = 0;
  std::int64_t most_tile_rows_ = 0;
  std::vector<Place> places_;  // of sequences 0, kPlaceStride, 2 kPlaceStride, ...
};

// The most rows that a tile is to have. Large tiles use each packed key tile more often; small ones
// give every thread several tasks. Results do not depend on it.
std::int64_t FusedRun::WantedTileRows(std::int64_t total_rows) const {
  // Wider heads get fewer rows: q and out of a tile are to stay in a cache of 1 MiB.
  const std::int64_t most = p_.head_dim + p_.head_dim_v <= 256 ? kMaxTileRows : kMaxTileRows / 2;
  if (!parallel_for_) return most;
  constexpr std::int64_t kTasksPerThread = 6;
  constexpr std::int64_t kFewestRows = 4 * kStripRows;
  const std::int64_t even =
      total_rows / (kTasksPerThread * std::max(1, parallel_for_->MaxParallelism()));
  return std::clamp(even / kStripRows * kStripRows, kFewestRows, most);
}

// `rows` cut into equal tiles of at most `most` rows, in whole strips.
std::int64_t EvenTileRows(std::int64_t rows, std::int64_t most) {
  const std::int64_t num_tiles = std::max<std::int64_t>(1, CeilDivide(rows, most));
  return CeilDivide(CeilDivide(rows, num_tiles), kStripRows) * kStripRows;
}

void FusedRun::PlanSequences() {
  std::int64_t total_rows = 0;
  for (std::int64_t b = 0; b < p_.batch_size; ++b)
    total_rows += BoundsOf(p_, b).room_q * p_.num_heads;
  most_tile_rows_ = WantedTileRows(total_rows);
  places_.reserve(static_cast<std::size_t>(CeilDivide(p_.batch_size, kPlaceStride)));
  Place place;
  for (std::int64_t b = 0; b < p_.batch_size; ++b) {
    if (b % kPlaceStride == 0) places_.push_back(place);
    place = PlaceAfter(MakePlan(b, place));
  }
  num_tasks_ = place.first_task;
  num_parts_ = place.first_part;
}

SequencePlan FusedRun::MakePlan(std::int64_t sequence, const Place& place) const {
  SequencePlan plan{.sequence = sequence, .bounds = BoundsOf(p_, sequence), .place = place};
  const std::int64_t rows_in_use = plan.bounds.seqlen_q * group_;
  plan.few_rows = rows_in_use <= kFewRows;
  const bool splits = plan.few_rows && rows_in_use > 0 && plan.bounds.seqlen_k > kSplitKeys;
  plan.num_splits = splits ? CeilDivide(plan.bounds.seqlen_k, kSplitKeys) : 1;
  const std::int64_t room = plan.bounds.room_q * group_;
  plan.tile_rows = std::max<std::int64_t>(1, EvenTileRows(room, most_tile_rows_));
  plan.num_row_tiles = splits ? 1 : CeilDivide(room, plan.tile_rows);
  return plan;
}

Place FusedRun::PlaceAfter(const SequencePlan& plan) const {
  Place next = plan.place;
  next.first_task += p_.num_kv_heads * plan.num_row_tiles * plan.num_splits;
  if (plan.num_splits > 1) next.first_part += p_.num_kv_heads * plan.num_splits;
  return next;
}

SequencePlan FusedRun::PlanOf(std::int64_t sequence) const {
  SequencePlan plan =
      MakePlan(sequence / kPlaceStride * kPlaceStride, places_[sequence / kPlaceStride]);
  while (plan.sequence < sequence) plan = MakePlan(plan.sequence + 1, PlaceAfter(plan));
  return plan;
}

// The sequence that a task belongs to. One without tasks has none.
SequencePlan FusedRun::PlanWithTask(std::int64_t task) const {
  const auto after =
      std::upper_bound(places_.begin(), places_.end(), task,
                       [](std::int64_t t, const Place& place) { return t < place.first_task; });
  const std::int64_t index = after - 1 - places_.begin();
  SequencePlan plan = MakePlan(index * kPlaceStride, places_[index]);
  for (Place next = PlaceAfter(plan); next.first_task <= task; next = PlaceAfter(plan))
    plan = MakePlan(plan.sequence + 1, next);
  return plan;
}

void FusedRun::RunTask(std::int64_t task) {
  const SequencePlan plan = PlanWithTask(task);
  FusedTile tile{.params = &p_, .sequence = plan.sequence, .bounds = plan.bounds};
  tile.few_rows = plan.few_rows;
  const std::int64_t i = task - plan.place.first_task;
  if (plan.num_splits > 1) {
    tile.kv_head = i / plan.num_splits;
    tile.row_end = plan.bounds.seqlen_q * group_;
    const std::int64_t split = i % plan.num_splits;
    tile.key_begin = split * kSplitKeys;
    tile.key_end = std::min(tile.key_begin + kSplitKeys, plan.bounds.seqlen_k);
    return AttendTilePartially(tile,
                               PartialStateAt(PartAt(plan, tile.kv_head, split), tile.row_end));
  }
  tile.kv_head = i % p_.num_kv_heads;
  // The last rows first: under a causal mask they have the most work.
  const std::int64_t row_tile = plan.num_row_tiles - 1 - i / p_.num_kv_heads;
  tile.row_begin = row_tile * plan.tile_rows;
  tile.row_end = std::min(tile.row_begin + plan.tile_rows, plan.bounds.room_q * group_);
  tile.key_end = plan.bounds.seqlen_k;
  AttendTile(tile);
}

void FusedRun::MergeSequence(const SequencePlan& plan, std::int64_t kv_head) {
  if (plan.num_splits == 1) return;
  FusedTile tile{
      .params = &p_, .sequence = plan.sequence, .bounds = plan.bounds, .kv_head = kv_head};
  tile.row_end = plan.bounds.seqlen_q * group_;
  MergeTile(tile, PartAt(plan, kv_head, 0), plan.num_splits, part_floats_);
  // What is left of the sequence's room holds no rows in use; a tile of such rows writes what they
  // must hold.
  const std::int64_t room = plan.bounds.room_q * group_;
  for (std::int64_t row = tile.row_end; row < room; row += plan.tile_rows) {
    FusedTile padding = tile;
    padding.row_begin = row;
    padding.row_end = std::min(row + plan.tile_rows, room);
    AttendTile(padding);
  }
}

absl::Status SupportsFused(const AttentionParams& p, const DeviceTraits& device) {
  if (device.backend != Backend::kCpu)
    return absl::UnimplementedError("cpu_fused: runs on the CPU only");
  if (!HasInstructionSet()) return absl::UnimplementedError("cpu_fused: needs SSE4 or better");
  return CheckWithoutProbs(p, "fused");
}

// The most splits, over all sequences, that any lengths within the shapes can make. Of packed
// sequences only those longer than kSplitKeys are split, each into at most one part more than it
// has whole kSplitKeys.
std::int64_t MostSplits(const AttentionParams& p) {
  if (p.cu_seqlens_k == nullptr) return p.batch_size * CeilDivide(p.seqlen_k, kSplitKeys);
  const std::int64_t whole = p.k.seqlen / kSplitKeys;
  return whole + std::min(whole, p.batch_size);
}

// The most workspace that any lengths within the shapes can need: splits with the rows of the
// longest sequence.
std::int64_t FusedWorkspaceBytes(const AttentionParams& p, const DeviceTraits&) {
  if (p.seqlen_k <= kSplitKeys || p.num_kv_heads == 0) return 0;
  const std::int64_t most_rows = p.seqlen_q * (p.num_heads / p.num_kv_heads);
  const bool all_as_long = p.cu_seqlens_q == nullptr && p.lengths_q == nullptr;
  if (all_as_long && most_rows > kFewRows) return 0;
  const std::int64_t rows = std::min(most_rows, kFewRows);
  return MostSplits(p) * p.num_kv_heads * PartialStateFloats(rows, p.head_dim_v) *
         SizeOf(DataType::kFloat32);
}

absl::Status RunFused(const AttentionParams& p, const ExecutionContext& context) {
  FusedRun run(p, context);
  if (run.WorkspaceBytes() > context.workspace_bytes) {
    return absl::InvalidArgumentError(absl::StrCat("workspace: ", context.workspace_bytes,
                                                   " bytes, at least ", run.WorkspaceBytes(),
                                                   " are needed"));
  }
  run.Run();
  return absl::OkStatus();
}

}  // namespace

KernelImplementation FusedImplementation() {
  return {.algorithm = "fused",
          .name = "cpu_fused",
          .backend = Backend::kCpu,
          .supports = SupportsFused,
          .workspace_bytes = FusedWorkspaceBytes,
          .run = RunFused};
}

}  // namespace attnd::cpu
