// The products of experts. The host does not know how many rows an expert has, so the grid is
// fixed. Blocks walk over items: a tile of a matrix by up to kMaxExpertRows rows of its expert.
// While a block multiplies an item, its copies are ahead in the next ones, so the ring of shared
// memory never drains. Items that share rows of x are adjacent. Those that share a tile of a matrix
// run in about the same wave, so the second one finds it in the L2 cache.
#include <algorithm>
#include <limits>

#include "common/base/check.h"
#include "kernels/cuda/product/expert_product.h"
#include "kernels/cuda/product/int8_rows.h"
#include "kernels/cuda/product/int8_tile.h"
#include "kernels/cuda/product/product.h"
#include "kernels/cuda/product/product_store.h"

namespace bastion::kernels::cuda {
namespace product {
namespace {

// What a launch computes, as kernel arguments.
struct ExpertWork {
  // x, the first matrix with its scales, and y or the activation; columns are those of a matrix.
  ProductArgs matrix;
  int64_t matrix_bytes;  // From a matrix to the next one.
  int pitch;             // Bytes of a row of a matrix.
  const int32_t* sources;
  const ExpertRows* rows;
  const int32_t* row_tiles;  // [1]
  int tiles;                 // Tiles of a matrix.
  int steps;                 // Steps of an item.
  int stages;
};

// A tile of W by rows of its expert.
struct Item {
  ExpertRows rows;
  int tile;
};

SIMT_DEVICE Item ItemAt(const ExpertWork& work, int index) {
  const Bytes16 bytes = LoadBytes16(work.rows + index / work.tiles);
  Item item;
  item.rows.expert = static_cast<int32_t>(bytes.word[0]);
  item.rows.first = static_cast<int32_t>(bytes.word[1]);
  item.rows.count = static_cast<int32_t>(bytes.word[2]);
  item.tile = index % work.tiles;
  return item;
}

// Where the matrix of an item begins, in bytes after the first matrix. So do its scales.
SIMT_DEVICE int64_t MatrixOffset(const ExpertWork& work, const Item& item) {
  return item.rows.expert * work.matrix_bytes;
}

// The rows of x that an item of `count` rows multiplies, with zeros after its last one.
SIMT_DEVICE int PaddedRows(int count) {
  return count <= 8 ? 8 : count <= 16 ? 16 : count <= 32 ? 32 : kMaxExpertRows;
}

// Starts the copies of a thread for the items of its block, step by step. T is the widest tile.
template <typename T>
class ExpertLoader {
 public:
  SIMT_DEVICE ExpertLoader(const ExpertWork& work, int items, uint32_t ring)
      : work_(work),
        items_(items),
        weights_(ring),
        piece_(ThreadIndex() % kPieces),
        row_(ThreadIndex() / kPieces),
        to_(ring + T::kWeightBytes + Place(row_, piece_)),
        index_(Block().x) {}

  // Starts the copies of the next step, if there is one, and closes their group.
  SIMT_DEVICE void CopyStep() {
    if (index_ < items_) {
      if (step_ == 0) BeginItem();
      Copy();
      if (++step_ == work_.steps) {
        step_ = 0;
        index_ += Blocks().x;
      }
    }
    CommitCopies();
    if (++slot_ == work_.stages) slot_ = 0;
  }

 private:
  static constexpr int kPassRows = T::kThreads / kPieces;
  static constexpr int kTokenPasses = (T::kTokens + kPassRows - 1) / kPassRows;

  SIMT_DEVICE void BeginItem() {
    const Item item = ItemAt(work_, index_);
    padded_ = PaddedRows(item.rows.count);
    SIMT_UNROLL
    for (int p = 0; p < kTokenPasses; ++p) {
      const int token = row_ + p * kPassRows;
      if (token >= item.rows.count) {
        tokens_[p] = -1;
      } else {
        const int place = item.rows.first + token;
        tokens_[p] = work_.sources == nullptr ? place : work_.sources[place];
      }
    }
    matrix_ = static_cast<const char*>(work_.matrix.weight) + MatrixOffset(work_, item);
    weights_.Begin(work_.matrix, item.tile);
  }

  SIMT_DEVICE void Copy() const {
    const ProductArgs& args = work_.matrix;
    const int column = step_ * kStep + piece_ * 8;
    const uint32_t stage = slot_ * T::kStageBytes;
    weights_.Copy(matrix_, work_.pitch, step_ * kStep, stage);
    SIMT_UNROLL
    for (int p = 0; p < kTokenPasses; ++p) {
      if (row_ + p * kPassRows >= padded_) return;
      const bool valid = tokens_[p] >= 0 && column < args.depth;
      const int64_t from = valid ? static_cast<int64_t>(tokens_[p]) * args.depth + column : 0;
      CopyAsync16(to_ + stage + p * kPassRows * kStepBytes, args.x + from, valid);
    }
  }

  const ExpertWork& work_;
  const int items_;
  WeightLoader<T> weights_;
  const int piece_, row_;  // What the thread copies of x.
  const uint32_t to_;
  int index_;  // The item that is copied, its step, and the slot of the ring.
  int step_ = 0, slot_ = 0;
  int padded_ = 0;                // Rows of x that the item needs.
  const char* matrix_ = nullptr;  // That of the item's expert.
  int tokens_[kTokenPasses];      // Rows of x; −1: none.
};

// Stores the sums of an item, as those of a product that ends with the item's rows.
template <typename T>
SIMT_DEVICE void StoreItem(const ExpertWork& work, const Item& item, const WarpSums<T>& sums) {
  Work stored;
  stored.args = work.matrix;
  stored.args.rows = item.rows.first + item.rows.count;
  Share share = {};
  share.first_token = item.rows.first;
  if (work.matrix.activation != nullptr) {
    StoreGated(stored, share, item.tile, sums);
  } else {
    Store(stored, share, item.tile, sums);
  }
}

// The ring of a block, filled and emptied step by step.
template <typename T>
class ExpertRing {
 public:
  SIMT_DEVICE ExpertRing(const ExpertWork& work, int items)
      : work_(work), ring_(SharedAddress(DynamicShared())), loader_(work, items, ring_) {
    for (int i = 0; i < work.stages - 1; ++i) loader_.CopyStep();
  }

  // Multiplies an item with at most 8 · `wide` rows of x.
  template <int wide>
  SIMT_DEVICE void Multiply(const Item& item) {
    using Used = Tile<T::kHigh, T::kWarps, wide, T::kWeightSize>;
    const int64_t floats = MatrixOffset(work_, item) / static_cast<int64_t>(sizeof(float));
    const RowScales<Used> scales(work_.matrix, floats, item.tile);
    WarpSums<Used> sums;
    sums.Clear();
    SIMT_ROLL
    for (int step = 0; step < work_.steps; ++step) {
      WaitForCopies(work_.stages - 2);
      SyncBlock();
      loader_.CopyStep();
      const uint32_t stage = ring_ + slot_ * T::kStageBytes;
      MultiplyStage(stage, stage + T::kWeightBytes, sums);
      if (++slot_ == work_.stages) slot_ = 0;
    }
    scales.Apply(sums);
    StoreItem(work_, item, sums);
  }

 private:
  const ExpertWork& work_;
  const uint32_t ring_;
  ExpertLoader<T> loader_;
  int slot_ = 0;  // The slot that is multiplied next.
};

template <typename T>
SIMT_KERNEL(T::kThreads, 1)
void ExpertProductKernel(ExpertWork work) {
  BeginKernel();  // The first item depends on earlier kernels, so no weights are loaded before.
  const int items = work.row_tiles[0] * work.tiles;
  ExpertRing<T> ring(work, items);
  for (int index = Block().x; index < items; index += Blocks().x) {
    const Item item = ItemAt(work, index);
    switch (PaddedRows(item.rows.count)) {
      case 8:
        ring.template Multiply<1>(item);
        break;
      case 16:
        ring.template Multiply<2>(item);
        break;
      case 32:
        ring.template Multiply<4>(item);
        break;
      default:
        ring.template Multiply<kMaxExpertRows / 8>(item);
    }
  }
  WaitCopies<0>();
}

int TilesOf(const ExpertProductArgs& args, int tile_columns) {
  return args.activation == nullptr ? Quotient(args.columns, tile_columns)
                                    : Quotient(args.columns / 2, tile_columns / 2);
}

template <int weight_size>
void LaunchItems(const ExpertWork& work, const ExpertPlan& plan, Stream& stream) {
  const auto launch = [&](auto tile) {
    using T = decltype(tile);
    Launch(stream, ExpertProductKernel<T>, {{plan.blocks}, T::kThreads, plan.shared}, work);
  };
  constexpr int kWide = kMaxExpertRows / 8;
  switch (plan.tile_columns) {
    case 64:
      return launch(Tile<1, 4, kWide, weight_size>());
    case 96:
      return launch(Tile<1, 6, kWide, weight_size>());
    default:
      return launch(Tile<1, 8, kWide, weight_size>());
  }
}

}  // namespace
}  // namespace product

int MaxExpertTiles(int rows, int chosen, int experts_total) {
  const int choices = rows * chosen;
  return std::min(choices, experts_total) + choices / kMaxExpertRows;
}

ExpertPlan PlanExperts(const ExpertProductArgs& args, const DeviceInfo& device) {
  ExpertPlan plan;
  // The tile that takes the least time for one row: rows of W per multiprocessor, in full waves.
  int least = std::numeric_limits<int>::max();
  for (const int columns : {128, 96, 64}) {
    const int items = product::TilesOf(args, columns) * args.chosen;
    const int cost = product::Quotient(items, device.multiprocessors) * columns;
    if (cost >= least) continue;
    plan.tile_columns = columns;
    least = cost;
  }
  const int tiles = product::TilesOf(args, plan.tile_columns);
  plan.blocks = std::min(device.multiprocessors, tiles * args.tile_capacity);
  const size_t stage = product::StageBytes(plan.tile_columns, kMaxExpertRows, args.int8 ? 1 : 2);
  plan.stages = std::clamp(static_cast<int>(device.shared_bytes / stage), 2, product::kMaxStages);
  // Two blocks must never fit on a multiprocessor (PlanProduct).
  plan.shared = std::max(plan.stages * stage, device.shared_bytes / 2);
  return plan;
}

void ExpertProduct(const ExpertProductArgs& args, const ExpertPlan& plan, Stream& stream) {
  CHECK(ProductSupports(args.depth)) << "a depth of " << args.depth << " is not a multiple of 8";
  product::ExpertWork work = {};
  work.matrix.x = args.x;
  work.matrix.weight = args.weight;
  work.matrix.columns = args.columns;
  work.matrix.depth = args.depth;
  work.matrix.y = args.y;
  work.matrix.activation = args.activation;
  work.sources = args.sources;
  work.rows = args.tiles;
  work.row_tiles = args.tile_count;
  work.tiles = product::TilesOf(args, plan.tile_columns);
  work.steps = product::Quotient(args.depth, product::kStep);
  work.stages = plan.stages;
  if (args.int8) {
    work.matrix.scales = Int8Scales(args.weight, args.columns, args.depth);
    work.pitch = Int8Pitch(args.depth);
    work.matrix_bytes = static_cast<int64_t>(Int8MatrixBytes(args.columns, args.depth));
    product::LaunchItems<1>(work, plan, stream);
  } else {
    work.pitch = 2 * args.depth;
    work.matrix_bytes = int64_t{work.pitch} * args.columns;
    product::LaunchItems<2>(work, plan, stream);
  }
}

}  // namespace bastion::kernels::cuda
