// One task of the CPU's fused attention: a tile of query rows of one sequence against a range of
// its keys.
#pragma once

#include <cstdint>

#include "kernels/attention_params.h"
#include "kernels/attention_shape.h"

namespace attnd::cpu {

// Keys that are packed and worked on at a time. Key tiles begin at multiples of it, whatever the
// rows see, so that a row's result depends on no other row.
inline constexpr std::int64_t kKeyTile = 128;
// The most rows of a tile: each packed key tile is used by all of them, while their q and out stay
// in the second-level cache.
inline constexpr std::int64_t kMaxTileRows = 384;
// Tiles are cut at multiples of this many rows: what the widest micro-kernel computes at once.
inline constexpr std::int64_t kStripRows = 12;

// The query heads that share a key/value head are worked on together. Packed row r of a sequence is
// query row r / group of the head kv_head * group + r % group, with group = num_heads /
// num_kv_heads.
struct FusedTile {
  const AttentionParams* params = nullptr;
  std::int64_t sequence = 0;
  SequenceBounds bounds;
  std::int64_t kv_head = 0;
  std::int64_t row_begin = 0;  // packed rows; at most kMaxTileRows of them
  std::int64_t row_end = 0;
  std::int64_t key_begin = 0;  // a multiple of kKeyTile
  std::int64_t key_end = 0;
  // Whether the sequence has so few rows that packing its keys and values would cost more than it
  // saves. A matter of the sequence, not of the tile: it decides the order of additions.
  bool few_rows = false;
};

// Un-normalised state of rows over one range of keys: m the true maximum of their scores s, l = sum
// exp(s - m), out = sum exp(s - m) v. A row that saw nothing has m = -inf, l = 0 and out = 0.
struct PartialState {
  float* m = nullptr;    // [rows]
  float* l = nullptr;    // [rows]
  float* out = nullptr;  // [rows, head_dim_v]
};

// Floats that the state of `rows` rows takes, and the state that begins at `memory`.
std::int64_t PartialStateFloats(std::int64_t rows, std::int64_t head_dim_v);
PartialState PartialStateAt(float* memory, std::int64_t rows);

// Whether this machine has one of the instruction sets that the functions below are built for.
bool HasInstructionSet();

// Computes the tile over [key_begin, key_end) and writes its rows of out and lse; rows in
// [seqlen_q, room_q) get 0 and -inf. Thread-safe; uses scratch memory of the calling thread
// (scratch.h).
void AttendTile(const FusedTile& tile);

// The same, but leaves the state in `partial` and out and lse alone.
void AttendTilePartially(const FusedTile& tile, const PartialState& partial);

// Merges `num_parts` states of the tile's rows, `part_floats` apart from `parts` on, in order, and
// writes out and lse.
void MergeTile(const FusedTile& tile, float* parts, std::int64_t num_parts,
               std::int64_t part_floats);

}  // namespace attnd::cpu
