// What the host hands the Hopper kernel.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/attention_params.h"
#include "kernels/cuda/sm90/cap_constants.h"
#include "kernels/cuda/sm90/tile_classes.h"

namespace attnd::cuda::sm90 {

struct KernelArgs {
  // Dimensions (head_dim, seqlen, heads, batch); one box is one column chunk of a tile, or of one
  // block's share of it.
  CUtensorMap q_map;
  CUtensorMap k_map;
  CUtensorMap v_map;
  CUtensorMap out_map;  // one box is one column chunk of 16 rows; only if copy_out
  // Dimensions (keys, rows, heads, batch); one box is a block of keys by a warpgroup's rows.
  CUtensorMap bias_map;  // only if copy_bias
  CUtensorMap mask_map;  // only if copy_mask
  AttentionParams p;
  TileClasses classes;  // of p.mask
  // Tiles of one sequence length (no cu_seqlens_q): m_blocks * num_heads * batch_size of them. With
  // cu_seqlens_q the device counts them.
  int m_blocks = 0;
  int num_tiles = 0;
  // Heads whose keys and values share the second-level cache; see tile_scheduler.cuh.
  int heads_per_section = 1;
  // Zero before the launch: the number of tiles handed out beyond each block's first. nullptr:
  // tiles are dealt in turn.
  int* ticket = nullptr;
  CapConstants cap = {};  // only for ScoreKind::kCapped
  // Results have 16 bits: 16 rows that a warp owns whole go through shared memory.
  bool copy_out = false;
  // Bias and mask that the copy engine can read come through shared memory.
  bool copy_bias = false;
  bool copy_mask = false;
  // A tile of v can hold rows past its sequence's length, where the copy engine does not write
  // zeros.
  bool clear_v_tail = false;
};

}  // namespace attnd::cuda::sm90
