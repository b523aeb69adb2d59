// The optional steps of AttentionParams between the score product and the softmax.
#pragma once

#include "kernels/attention_params.h"
#include "kernels/cuda/element.cuh"
#include "kernels/cuda/ptx/shared_address.cuh"
#include "kernels/cuda/sm90/epilogue.cuh"
#include "kernels/cuda/sm90/score_arrays.cuh"
#include "kernels/cuda/sm90/score_cap.cuh"
#include "kernels/online_softmax.h"
#include "kernels/sequence_bounds.h"

namespace attnd::cuda::sm90 {

// Where a thread's scores of one block belong: of those of rows `row` and row + 8, element i lies
// in the first row if i / 2 is even, at key first_key + Column(i).
struct ScorePlace {
  int batch;
  int head;
  int row;  // in its sequence
  int first_key;

  static __device__ __forceinline__ int Column(int i) { return i / 4 * 8 + i % 2; }
  static __device__ __forceinline__ bool InSecondRow(int i) { return (i >> 1 & 1) != 0; }
};

// Raw products of one block in, finished scores out.
template <typename Traits>
class ScoreOptions {
 public:
  static constexpr int kCount = Traits::kBlockN / 2;  // scores of a thread

  // `arrays`: the warpgroup's slot, with what ArraySlots says.
  __device__ __forceinline__ ScoreOptions(const KernelArgs& args, std::uint32_t arrays,
                                          const ArraySlots<Traits>& slots, const ScorePlace& place)
      : args_(args),
        p_(args.p),
        bias_(arrays),
        mask_(arrays + slots.bias_bytes() + ThreadOffset(Traits::kMaskPitch)),
        place_(place) {}

  // `c`: what the mask says of the block.
  __device__ __forceinline__ void Apply(BlockClass c, float (&scores)[kCount]) const {
    if constexpr (Traits::kFinishes) Finish(scores);
    if constexpr (!Traits::kMasks) return;
    if (c == BlockClass::kPartial) ApplyMask(scores);
    if (c == BlockClass::kEmpty) {
#pragma unroll
      for (int i = 0; i < kCount; ++i) scores[i] = NegativeInfinity();
    }
  }

 private:
  using Stored = Element<Traits::kDtype>;

  // Everything but the mask.
  __device__ __forceinline__ void Finish(float (&scores)[kCount]) const {
    float factor = p_.softmax_scale;
    if constexpr (Traits::kBiasAlone) {
      AddCopiedBias(factor, scores);
      return;
    }
    if (p_.softcap > 0.0f) {
      ScoreCap(p_.softmax_scale, p_.softcap).Apply(scores);
      factor = p_.softcap;
    }
    if (args_.copy_bias) {
      AddCopiedBias(factor, scores);
    } else if (p_.bias.data != nullptr) {
      AddBiasInMemory(factor, scores);
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) scores[i] *= factor;
    }
    if (p_.alibi_slopes != nullptr) AddAlibi(scores);
  }

  // Of this thread's first element among those of its warpgroup's block.
  static __device__ __forceinline__ int ThreadOffset(int pitch) {
    return ThreadRowInGroup() * pitch + threadIdx.x % 4 * 2;
  }
  // From there to the pair of elements that begins with score i.
  static __device__ __forceinline__ int PairOffset(int pitch, int i) {
    return ScorePlace::InSecondRow(i) * 8 * pitch + ScorePlace::Column(i);
  }

  // scores = factor * scores + bias, rounded once.
  __device__ __forceinline__ void AddCopiedBias(float factor, float (&scores)[kCount]) const {
    constexpr int kPitch = Traits::kBiasPitch;
    const int offset = ThreadOffset(kPitch);
    if (p_.bias.dtype == DataType::kFloat32) {
#pragma unroll
      for (int i = 0; i < kCount; i += 2) {
        const float2 pair = ptx::LoadSharedFloat2(bias_ + 4 * (offset + PairOffset(kPitch, i)));
        scores[i] = __fmaf_rn(scores[i], factor, pair.x);
        scores[i + 1] = __fmaf_rn(scores[i + 1], factor, pair.y);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; i += 2) {
        const std::uint32_t pair = ptx::LoadShared32(bias_ + 2 * (offset + PairOffset(kPitch, i)));
        const float low = Stored::ToFloat(static_cast<std::uint16_t>(pair));
        const float high = Stored::ToFloat(static_cast<std::uint16_t>(pair >> 16));
        scores[i] = __fmaf_rn(scores[i], factor, low);
        scores[i + 1] = __fmaf_rn(scores[i + 1], factor, high);
      }
    }
  }
  __device__ __forceinline__ void AddBiasInMemory(float factor, float (&scores)[kCount]) const {
    if (p_.bias.dtype == DataType::kFloat32) {
      ForEachInMemory(static_cast<const float*>(p_.bias.data), p_.bias, scores,
                      [factor](float score, float bias) { return __fmaf_rn(score, factor, bias); });
    } else {
      ForEachInMemory(static_cast<const std::uint16_t*>(p_.bias.data), p_.bias, scores,
                      [factor](float score, std::uint16_t bias) {
                        return __fmaf_rn(score, factor, Stored::ToFloat(bias));
                      });
    }
  }

  __device__ __forceinline__ void ApplyMask(float (&scores)[kCount]) const {
    const auto hide = [](float score, std::uint32_t visible) {
      return visible != 0 ? score : NegativeInfinity();
    };
    if (args_.copy_mask) {
#pragma unroll
      for (int i = 0; i < kCount; i += 2) {
        const std::uint32_t pair = ptx::LoadShared16(mask_ + PairOffset(Traits::kMaskPitch, i));
        scores[i] = hide(scores[i], pair & 0xff);
        scores[i + 1] = hide(scores[i + 1], pair >> 8);
      }
    } else {
      ForEachInMemory(p_.mask.data, p_.mask, scores, hide);
    }
  }

  // Distances are exact: up to 2^24 in float32, else in integers, whose conversion takes time.
  __device__ __forceinline__ void AddAlibi(float (&scores)[kCount]) const {
    const float slope = -p_.alibi_slopes[place_.batch * p_.alibi_batch_stride + place_.head];
    const SequenceBounds s = BoundsOf(p_, place_.batch);
    const int offset = place_.row + static_cast<int>(s.seqlen_k - s.seqlen_q) - place_.first_key;
    if (p_.seqlen_q + p_.seqlen_k < (1 << 24)) {
      const float row_offsets[2] = {static_cast<float>(offset), static_cast<float>(offset + 8)};
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const float distance = row_offsets[ScorePlace::InSecondRow(i)] - ScorePlace::Column(i);
        scores[i] = __fmaf_rn(slope, fabsf(distance), scores[i]);
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        const int distance = offset + 8 * ScorePlace::InSecondRow(i) - ScorePlace::Column(i);
        scores[i] = __fmaf_rn(slope, static_cast<float>(abs(distance)), scores[i]);
      }
    }
  }

  // Replaces each score that has an element in `data`, the memory of `view`, by change(score,
  // element).
  template <typename T, typename View, typename Change>
  __device__ __forceinline__ void ForEachInMemory(const T* data, const View& view,
                                                  float (&scores)[kCount], Change change) const {
    const SequenceBounds s = BoundsOf(p_, place_.batch);
    const T* const rows[2] = {data + Offset(view, place_.row), data + Offset(view, place_.row + 8)};
    const bool live[2] = {place_.row < s.seqlen_q, place_.row + 8 < s.seqlen_q};
    const int keys_left = static_cast<int>(s.seqlen_k) - place_.first_key;
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int r = ScorePlace::InSecondRow(i);
      const int column = ScorePlace::Column(i);
      if (live[r] && column < keys_left) scores[i] = change(scores[i], rows[r][column]);
    }
  }
  template <typename View>
  __device__ __forceinline__ std::int64_t Offset(const View& view, int row) const {
    return ScoreOffset(view, place_.batch, place_.head, row) + place_.first_key;
  }

  const KernelArgs& args_;
  const AttentionParams& p_;
  const std::uint32_t bias_;  // shared memory: the warpgroup's block
  const std::uint32_t mask_;  // this thread's first element
  const ScorePlace place_;
};

}  // namespace attnd::cuda::sm90
