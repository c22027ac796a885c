// The parts of attention_warpgroup.cu: one warp of a block copies key tiles and their values to
// shared memory (warpgroup.h), and warpgroups multiply them. The arithmetic is that of
// attention_tile.h in the same order, so it gives the same bits.
#ifndef BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_WARPGROUP_H_
#define BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_WARPGROUP_H_

#include "kernels/cuda/attention/attention_merge.h"

namespace bastion::kernels::cuda::attention {

struct WarpgroupAttention {
  AttentionArgs args;
  TensorMap keys, values;
};

// A block of `warpgroups` that multiply, for heads of up to D elements, and one that copies: only
// one of its warps does, but all of them give their registers to the others.
template <int D, int warpgroups>
struct Shape {
  static constexpr int kDim = D;
  static constexpr int kWarpgroups = warpgroups;
  static constexpr int kMaxRows = kWarpgroupRows * warpgroups;
  static constexpr int kBlocks = 2 / warpgroups;  // Per multiprocessor.
  static constexpr int kThreads = (warpgroups + 1) * kWarpgroup;
  // A thread that copies has the first number, one that multiplies the second: 65,536 for all.
  static constexpr int kCopyRegisters = 56;
  static constexpr int kSumRegisters = warpgroups == 1 ? 200 : 224;
  // A row of a tile in shared memory has 64 elements, so there is a part for each 64 of D.
  static constexpr int kParts = D / 64;
  static constexpr int kPartBytes = kTileKeys * 128;
  static constexpr int kSlotBytes = kParts * kPartBytes;
  // Pairs of slots in the ring: one for the keys of a tile, and one for its values.
  static constexpr int kPairs = 4 / kBlocks * (2 / kParts);
};

// The shared memory of a block: the ring, the merged chunks, the items and the barriers. The plan
// follows.
template <typename S>
class BlockMemory {
 public:
  static constexpr int kItems = 2;  // That of the copies, and that of the products.
  static constexpr int kTotalsAt = 2 * S::kPairs * S::kSlotBytes;
  static constexpr int kItemsAt = kTotalsAt + S::kWarpgroups * TotalBytes(S::kDim, 1);
  static constexpr int kBarriersAt = kItemsAt + kItems * static_cast<int>(sizeof(Item));
  static constexpr int kPlanAt = kBarriersAt + 2 * (2 * S::kPairs + kItems) * kBarrierBytes;
  static constexpr int kBytes = kPlanAt + kTileAlignment;

  SIMT_DEVICE BlockMemory() {
    const uint32_t begin = SharedAddress(DynamicShared());
    base_ = (begin + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
    memory_ = DynamicShared() + (base_ - begin);
  }

  SIMT_DEVICE void InitializeBarriers() const {
    for (int pair = 0; pair < S::kPairs; ++pair) {
      InitBarrier(Filled(pair, false), 1);
      InitBarrier(Filled(pair, true), 1);
      InitBarrier(Released(pair, false), S::kWarpgroups);
      InitBarrier(Released(pair, true), S::kWarpgroups);
    }
    for (int i = 0; i < kItems; ++i) {
      InitBarrier(Announced(i), 1);
      InitBarrier(Taken(i), S::kWarpgroups * kWarpgroup / kWarp);
    }
    PublishBarriers();
  }
  // Where the keys or the values of a tile are.
  [[nodiscard]] SIMT_DEVICE uint32_t Slot(int pair, bool values) const {
    return base_ + (2 * pair + (values ? 1 : 0)) * S::kSlotBytes;
  }
  // Its phase ends when the slot's copies have arrived.
  [[nodiscard]] SIMT_DEVICE uint32_t Filled(int pair, bool values) const {
    return base_ + kBarriersAt + (2 * pair + (values ? 1 : 0)) * kBarrierBytes;
  }
  // Its phase ends when all warpgroups have multiplied the slot.
  [[nodiscard]] SIMT_DEVICE uint32_t Released(int pair, bool values) const {
    return Filled(S::kPairs + pair, values);
  }
  [[nodiscard]] SIMT_DEVICE Item& item(int i) const {
    return reinterpret_cast<Item*>(memory_ + kItemsAt)[i];
  }
  // Its phase ends when there is an item.
  [[nodiscard]] SIMT_DEVICE uint32_t Announced(int i) const {
    return Filled(2 * S::kPairs, false) + i * kBarrierBytes;
  }
  // Its phase ends when no warp needs the item any more.
  [[nodiscard]] SIMT_DEVICE uint32_t Taken(int i) const { return Announced(kItems + i); }
  [[nodiscard]] SIMT_DEVICE float* totals() const {
    return reinterpret_cast<float*>(memory_ + kTotalsAt);
  }
  [[nodiscard]] SIMT_DEVICE char* plan() const { return memory_ + kPlanAt; }

 private:
  uint32_t base_;
  char* memory_;
};

// Announces the items of a block, and copies their keys and values. For one warp.
template <typename S>
class Producer {
 public:
  SIMT_DEVICE Producer(const WarpgroupAttention& work, const BlockMemory<S>& memory)
      : work_(work), memory_(memory) {}

  SIMT_DEVICE void Run(const Plan& plan) {
    Turn place;
    SIMT_ROLL
    for (BlockItems items(work_.args.multiprocessors); items.index() < plan.items();
         items.Advance()) {
      const Item item = ItemAt(work_.args, plan, S::kMaxRows, items.index());
      WaitForPhase(memory_.Taken(place.slot), place.parity ^ 1);
      if (Lane() == 0) {
        memory_.item(place.slot) = item;
        Arrive(memory_.Announced(place.slot));
      }
      CopyTiles(item);
      place.Advance(BlockMemory<S>::kItems);
    }
  }

 private:
  static constexpr int kTilePages = kTileKeys / kPageTokens;
  static constexpr int kWarpTiles = kWarp / kTilePages;  // Tiles whose pages a warp holds.
  static constexpr int kWarpKeys = kWarp * kPageTokens;

  // This lane's page of the kWarp pages from key `begin` on. Past the end: any page.
  SIMT_DEVICE int PageOf(const Item& item, int begin) const {
    const int page = begin / kPageTokens + Lane();
    if (page * kPageTokens >= item.span.length()) return 0;
    return work_.args.rows.pages[item.first_page + page];
  }
  SIMT_DEVICE void CopyTiles(const Item& item) {
    int held = PageOf(item, item.begin), ahead = PageOf(item, item.begin + kWarpKeys), tile = 0;
    // Earlier kernels may still write the keys of this step, or all.
    if (item.division == Division::kDirect || !work_.args.reads_ahead) WaitForEarlierKernels();
    SIMT_ROLL
    for (int begin = item.begin; begin < item.end; begin += kTileKeys, ++tile) {
      if (tile == kWarpTiles) {
        held = ahead;
        ahead = PageOf(item, begin + kWarpKeys);
        tile = 0;
      }
      const int page = Shuffle(held, tile * kTilePages + Lane() % kTilePages);
      const int row = (page * work_.args.cache.kv_heads + item.kv_head) * kPageTokens;
      Copy(work_.keys, row, false);
      Copy(work_.values, row, true);
      turn_.Advance(S::kPairs);
    }
  }

  // Each of the first lanes copies 64 columns of a page. `row`: that of the lane's page.
  SIMT_DEVICE void Copy(const TensorMap& map, int row, bool values) const {
    WaitForPhase(memory_.Released(turn_.slot, values), turn_.parity ^ 1);
    const uint32_t filled = memory_.Filled(turn_.slot, values);
    if (Lane() == 0) ArriveAndExpect(filled, S::kSlotBytes);
    SyncWarp();
    if (Lane() >= S::kParts * kTilePages) return;
    const int part = Lane() / kTilePages, page = Lane() % kTilePages;
    CopyTile(memory_.Slot(turn_.slot, values) + part * S::kPartBytes + page * kPageTokens * 128,
             map, filled, Corner2{64 * part, row});
  }

  const WarpgroupAttention& work_;
  const BlockMemory<S>& memory_;
  Turn turn_;
};

// Multiplies the tiles of an item. While the values of a tile are multiplied, the scores of the
// next one are weighed. For all threads of a warpgroup.
template <typename S>
class Consumer {
 public:
  using Sums = ChunkSums<S::kDim, 1>;

  SIMT_DEVICE Consumer(const AttentionArgs& args, const BlockMemory<S>& memory)
      : args_(args), memory_(memory), scale_(args.scale * kLog2E) {}

  SIMT_DEVICE void Run(const Item& item) {
    if (Warp() / 4 * kWarpgroupRows >= item.rows) return Pass(item);
    Totals<S::kDim, 1> totals(memory_.totals());
    if (item.division != Division::kChunks) totals.Clear();
    sums_.Clear();
    WaitForEarlierKernels();
    LoadQueries(args_, item, args_.query, Warp() * kWarpRows, queries_);
    StartScores();
    WaitProducts<0>();
    Release(keys_, false);
    BeginTile(Weigh(item, item.begin, true));
    SIMT_ROLL
    for (int begin = item.begin + kTileKeys; begin < item.end; begin += kTileKeys) {
      StartScores();
      StartValues(item, begin - kTileKeys);
      WaitProducts<1>();
      Release(keys_, false);
      const bool first = IsChunkBegin(begin);
      const Raises raises = Weigh(item, begin, first);
      EndValues();
      if (first) {
        totals.Add(sums_);
        sums_.Clear();
      }
      BeginTile(raises);
    }
    StartValues(item, (item.end - 1) / kTileKeys * kTileKeys);
    EndValues();
    StoreItem<S::kDim, 1>(args_, item, totals, sums_);
  }

 private:
  struct Raises {
    float peak[2], shrink[2];
  };

  // The warpgroup has no rows of the item.
  SIMT_DEVICE void Pass(const Item& item) {
    SIMT_ROLL
    for (int begin = item.begin; begin < item.end; begin += kTileKeys) {
      WaitForPhase(memory_.Filled(keys_.slot, false), keys_.parity);
      Release(keys_, false);
      WaitForPhase(memory_.Filled(values_.slot, true), values_.parity);
      Release(values_, true);
    }
  }

  SIMT_DEVICE void Release(Turn& turn, bool values) const {
    if (ThreadIndex() % kWarpgroup == 0) Arrive(memory_.Released(turn.slot, values));
    turn.Advance(S::kPairs);
  }

  SIMT_DEVICE void StartScores() {
    SIMT_UNROLL
    for (int n = 0; n < kTileKeys / 8; ++n) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) scores_[n][i] = 0.0f;
    }
    WaitForPhase(memory_.Filled(keys_.slot, false), keys_.parity);
    const uint32_t keys = memory_.Slot(keys_.slot, false);
    StartProducts();
    SIMT_UNROLL
    for (int part = 0; part < S::kParts; ++part) {
      const Operand columns = OperandAt(keys + part * S::kPartBytes);
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        WarpgroupMultiplyAdd(scores_, queries_[4 * part + i], Part(columns, i));
      }
    }
    EndProducts();
  }

  // Turns the scores of the tile from key `begin` on into weights. `first`: it begins a chunk.
  SIMT_DEVICE Raises Weigh(const Item& item, int begin, bool first) {
    HideUnseen<1>(args_, item, begin, scores_);
    float tops[2];
    FindTops<kTileKeys>(scores_, tops);
    Raises raises;
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) {
      const Raise raise(first ? -Infinity() : sums_.peak[half], tops[half], scale_);
      raises.peak[half] = raise.peak;
      raises.shrink[half] = raise.shrink;
      SIMT_UNROLL
      for (int n = 0; n < kTileKeys / 8; ++n) {
        scores_[n][2 * half] = raise.Weight(scores_[n][2 * half], scale_);
        scores_[n][2 * half + 1] = raise.Weight(scores_[n][2 * half + 1], scale_);
      }
    }
    return raises;
  }

  // Rescales the sums to the tile's peaks, and rounds its weights. No product may read the weights
  // of the tile before any more.
  SIMT_DEVICE void BeginTile(const Raises& raises) {
    // A factor of 1 changes nothing. Once the peaks are found, nearly all are 1.
    if (Ballot(raises.shrink[0] != 1.0f || raises.shrink[1] != 1.0f) != 0) {
      sums_.Shrink(0, raises.shrink[0]);
      sums_.Shrink(1, raises.shrink[1]);
    }
    SIMT_UNROLL
    for (int half = 0; half < 2; ++half) sums_.peak[half] = raises.peak[half];
    SIMT_UNROLL
    for (int step = 0; step < kTileKeys / 16; ++step) {
      SIMT_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float(&pair)[4] = scores_[2 * step + i / 2];
        weights_[step][i] = PackBf16(pair[i % 2 * 2], pair[i % 2 * 2 + 1]);
      }
    }
  }

  SIMT_DEVICE void StartValues(const Item& item, int begin) {
    WaitForPhase(memory_.Filled(values_.slot, true), values_.parity);
    const uint32_t values = memory_.Slot(values_.slot, true);
    if (begin + kTileKeys > item.span.length()) ClearRows(values, item.span.length() - begin);
    StartProducts();
    SIMT_UNROLL
    for (int step = 0; step < kTileKeys / 16; ++step) {
      SIMT_UNROLL
      for (int part = 0; part < S::kParts; ++part) {
        auto& columns = reinterpret_cast<float(&)[8][4]>(sums_.output[8 * part]);
        WarpgroupMultiplyAdd(columns, weights_[step],
                             Part(TransposedAt(values + part * S::kPartBytes), step));
      }
    }
    EndProducts();
  }

  // The rows of a slot that no token of the span has, from `first` on, become zeros: their weights
  // are zero, but the cache may have anything there.
  SIMT_DEVICE void ClearRows(uint32_t slot, int first) const {
    char* const rows = DynamicShared() + (slot - SharedAddress(DynamicShared()));
    SIMT_UNROLL
    for (int part = 0; part < S::kParts; ++part) {
      for (int at = first * 128 + ThreadIndex() % kWarpgroup * 16; at < S::kPartBytes;
           at += kWarpgroup * 16) {
        StoreBytes16(rows + part * S::kPartBytes + at, Bytes16{});
      }
    }
    PublishStores();
  }

  SIMT_DEVICE void EndValues() {
    WaitProducts<0>();
    Release(values_, true);
    constexpr uint32_t kOnes = 0x3F803F80u;  // Two bf16.
    SIMT_UNROLL
    for (int step = 0; step < kTileKeys / 16; ++step) {
      MatrixMultiplyAdd(sums_.weight, weights_[step], kOnes, kOnes);
    }
  }

  const AttentionArgs& args_;
  const BlockMemory<S>& memory_;
  const float scale_;  // For scores, in base 2.
  Turn keys_, values_;
  uint32_t queries_[S::kDim / 16][4];
  uint32_t weights_[kTileKeys / 16][4];  // Left operands.
  float scores_[kTileKeys / 8][4];
  Sums sums_;
};

}  // namespace bastion::kernels::cuda::attention

#endif  // BASTION_KERNELS_CUDA_ATTENTION_ATTENTION_WARPGROUP_H_
