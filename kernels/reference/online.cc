#include "kernels/reference/online.h"

#include "kernels/cpu/without_probs.h"
#include "kernels/online_softmax.h"
#include "kernels/reference/row_block.h"

namespace attnd::cpu {
namespace {

struct RowState {
  SoftmaxState softmax;
  HeadVector sum = {};  // of weight * value; not yet divided by the denominator
};

// Lets every row that may see key j absorb it. Keys and values that no row may see are not read.
void AbsorbKey(const AttentionParams& p, const RowBlock& block, std::int64_t j, RowState* states) {
  if (!block.AnyRowSees(j)) return;
  HeadVector key;
  HeadVector value;
  LoadKey(p, block, j, key);
  LoadValue(p, block, j, value);
  for (std::int64_t r = 0; r < block.num_rows; ++r) {
    const BlockRow& row = block.rows[r];
    if (!row.Sees(j)) continue;
    float weight = 0.0f;
    const float factor =
        states[r].softmax.Update(row.scorer.Score(Dot(row.q, key, p.head_dim), j), &weight);
    if (weight != 0.0f) ScaleAndAdd(factor, weight, value, p.head_dim_v, states[r].sum);
  }
}

void AttendBlock(const AttentionParams& p, const RowBlock& block) {
  RowState states[kRowsPerBlock];
  const KeyRange keys = block.Keys();
  for (std::int64_t j = keys.begin; j < keys.end; ++j) AbsorbKey(p, block, j, states);
  for (std::int64_t r = 0; r < block.num_rows; ++r) {
    RowState& state = states[r];
    float factor = 1.0f;
    if (p.sinks != nullptr) factor = state.softmax.AddSink(p.sinks[block.head]);
    StoreRow(p, block, block.rows[r], state.sum, factor * state.softmax.InverseSum(),
             state.softmax.Lse());
  }
}

absl::Status Supports(const AttentionParams& p, const DeviceTraits&) {
  return CheckWithoutProbs(p, "online");
}

std::int64_t WorkspaceBytes(const AttentionParams&, const DeviceTraits&) { return 0; }

absl::Status Run(const AttentionParams& p, const ExecutionContext& context) {
  StorePadding(p, context);
  ForEachRowBlock(p, context, [&p](const RowBlock& block) { AttendBlock(p, block); });
  return absl::OkStatus();
}

}  // namespace

KernelImplementation OnlineImplementation() {
  return {"online", "cpu_online", Backend::kCpu, Supports, WorkspaceBytes, Run};
}

}  // namespace attnd::cpu
