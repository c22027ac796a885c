// The primitives of sm_90a in the emulator: phase barriers, copies of tiles, and products of
// warpgroups.
#include <array>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "kernels/cuda/simt/emulator.h"
#include "kernels/cuda/simt/warpgroup.h"

namespace bastion::kernels::cuda::simt {
namespace {

constexpr int kTileRow = 128;  // Bytes.
constexpr int kDepth = 16;     // Columns of a product.

struct TileCopy {
  uint32_t to;
  TensorBox box;
  std::array<int, TensorBox::kMaxRank> at;

  [[nodiscard]] int rows() const {
    int rows = 1;
    for (int d = 1; d < box.rank; ++d) rows *= box.box[d];
    return rows;
  }
};

struct PhaseBarrier {
  int arrivals = 0;
  int missing = 0;                        // Arrivals in the current phase.
  int64_t expected = 0;                   // Bytes announced and not yet copied.
  uint32_t ended = 0;                     // Phases.
  std::vector<TileCopy> copies, arrived;  // Those of the current phase, and of the last.
};

// The products that the threads of a warpgroup have queued. All threads queue the same.
struct Warpgroup {
  struct Product {
    Factors factors;                           // `held` is that of the first thread.
    std::array<float*, kWarpgroup> sums = {};  // Those of the threads.
    std::array<const uint32_t*, kWarpgroup> held = {};
  };
  struct Thread {
    size_t queued = 0, ended = 0;
    bool started = false;
  };
  std::vector<Product> products;
  std::vector<size_t> groups;  // How many products had been queued at the end of each group.
  std::array<Thread, kWarpgroup> threads = {};
  size_t done = 0;     // Products.
  int waiting = 0;     // Threads in WaitProducts.
  uint32_t waits = 0;  // Calls of WaitProducts that are over.
  // The same of PublishStores.
  int publishing = 0;
  uint32_t published = 0;
};

// What a block has in shared memory and in its warpgroups.
struct BlockState {
  int64_t block = -1;
  std::map<uint32_t, PhaseBarrier> barriers;
  std::map<int, Warpgroup> warpgroups;
};

BlockState& State() {
  static auto* const state = new BlockState();
  if (state->block != emulator::BlocksBegun()) {
    *state = {};
    state->block = emulator::BlocksBegun();
  }
  return *state;
}

PhaseBarrier& BarrierAt(uint32_t barrier) {
  const auto found = State().barriers.find(barrier);
  CHECK(found != State().barriers.end())
      << "byte " << barrier << " of shared memory is not an initialized barrier";
  return found->second;
}

// Ends the phase if everything has arrived.
void EndPhase(PhaseBarrier& barrier) {
  if (barrier.missing > 0 || barrier.expected != 0) return;
  ++barrier.ended;
  barrier.missing = barrier.arrivals;
  CHECK(barrier.arrived.empty()) << "a phase ended, and no thread waited for the one before it";
  barrier.arrived.swap(barrier.copies);
}

void ArriveAt(uint32_t at, int bytes) {
  PhaseBarrier& barrier = BarrierAt(at);
  CHECK_GT(barrier.missing, 0) << "too many threads arrive at a phase barrier";
  --barrier.missing;
  barrier.expected += bytes;
  EndPhase(barrier);
}

// Bytes of shared memory at `at`, which the swizzle may have moved within its row.
char* Swizzled(uint32_t at) { return DynamicShared() + (at ^ (at >> 7 & 7) << 4); }

// Copies a row of the tile, piece by piece.
void CopyRow(const TileCopy& copy, int row) {
  const char* from = static_cast<const char*>(copy.box.base);
  bool inside = true;
  for (int d = 1, left = row; d < copy.box.rank; ++d) {
    const int64_t index = copy.at[d] + left % copy.box.box[d];
    left /= copy.box.box[d];
    inside &= index >= 0 && index < copy.box.sizes[d];
    from += index * copy.box.strides[d];
  }
  for (int byte = 0; byte < kTileRow; byte += 2) {
    const int64_t column = copy.at[0] + byte / 2;
    char* const to = Swizzled(copy.to + row * kTileRow + byte / 16 * 16) + byte % 16;
    if (inside && column < copy.box.sizes[0]) {
      std::memcpy(to, from + 2 * column, 2);
    } else {
      std::memset(to, 0, 2);
    }
  }
}

TensorBox BoxOf(const TensorMap& map) {
  TensorBox box;
  std::memcpy(&box, map.bytes, sizeof box);
  return box;
}

void StartCopy(const TileCopy& copy, uint32_t at) {
  PhaseBarrier& barrier = BarrierAt(at);
  const int bytes = copy.rows() * kTileRow;
  CHECK_EQ(copy.to % kTileAlignment, 0u) << "a tile must begin at a multiple of 1,024 bytes";
  CHECK_EQ(copy.box.box[0] * 2, kTileRow) << "a row of a tile has 64 elements";
  emulator::CheckShared(copy.to, bytes);
  std::memset(DynamicShared() + copy.to, 0xFF, bytes);
  barrier.copies.push_back(copy);
  barrier.expected -= bytes;
  EndPhase(barrier);
}

Warpgroup& MyWarpgroup() { return State().warpgroups[ThreadIndex() / kWarpgroup]; }
Warpgroup::Thread& Mine(Warpgroup& group) { return group.threads[ThreadIndex() % kWarpgroup]; }

// [rows, columns] of a tile.
std::vector<float> Read(Operand operand, int rows, int columns) {
  std::vector<float> values(static_cast<size_t>(rows) * columns);
  emulator::CheckShared(operand, (rows - 1) * kTileRow + 2 * columns);
  for (int row = 0; row < rows; ++row) {
    for (int column = 0; column < columns; ++column) {
      uint16_t bits;
      const uint32_t at = operand + row * kTileRow + 2 * column;
      std::memcpy(&bits, Swizzled(at & ~15u) + at % 16, 2);
      values[row * columns + column] = FromBf16(bits);
    }
  }
  return values;
}

// [64, 16], from the registers of the threads or from a tile.
std::vector<float> ReadX(const Warpgroup::Product& product) {
  if (product.factors.held == nullptr) return Read(product.factors.x, 64, kDepth);
  std::vector<float> values(64 * kDepth);
  for (int thread = 0; thread < kWarpgroup; ++thread) {
    for (int i = 0; i < 4; ++i) {
      const int row = thread / kWarp * 16 + thread % kWarp / 4 + i % 2 * 8;
      float* const to = &values[row * kDepth + thread % 4 * 2 + i / 2 * 8];
      to[0] = LowBf16(product.held[thread][i]);
      to[1] = HighBf16(product.held[thread][i]);
    }
  }
  return values;
}

// [8 wide, 16]
std::vector<float> ReadY(const Factors& factors) {
  const int rows = 8 * factors.wide;
  if (!factors.transposed) return Read(factors.y, rows, kDepth);
  const std::vector<float> read = Read(factors.y, kDepth, rows);
  std::vector<float> values(read.size());
  for (size_t i = 0; i < read.size(); ++i) values[i % rows * kDepth + i / rows] = read[i];
  return values;
}

void Multiply(const Warpgroup::Product& product) {
  const std::vector<float> x = ReadX(product), y = ReadY(product.factors);
  for (int thread = 0; thread < kWarpgroup; ++thread) {
    float* const sums = product.sums[thread];
    for (int i = 0; i < 4 * product.factors.wide; ++i) {
      const int row = thread / kWarp * 16 + thread % kWarp / 4 + i % 4 / 2 * 8;
      const int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
      float sum = 0;
      for (int k = 0; k < kDepth; ++k) sum += x[row * kDepth + k] * y[column * kDepth + k];
      sums[i] += sum;
    }
  }
}

}  // namespace

void InitBarrier(uint32_t barrier, int arrivals) {
  CHECK_EQ(barrier % 8, 0u) << "a barrier must be aligned to 8 bytes";
  emulator::CheckShared(barrier, 8);
  PhaseBarrier initial;
  initial.arrivals = initial.missing = arrivals;
  State().barriers[barrier] = initial;
}

void Arrive(uint32_t barrier) { ArriveAt(barrier, 0); }
void ArriveAndExpect(uint32_t barrier, int bytes) { ArriveAt(barrier, bytes); }

void WaitForPhase(uint32_t barrier, uint32_t parity) {
  PhaseBarrier& at = BarrierAt(barrier);
  emulator::WaitUntil([&at, parity] { return at.ended % 2 != parity; });
  for (const TileCopy& copy : std::exchange(at.arrived, {})) {
    for (int row = 0; row < copy.rows(); ++row) CopyRow(copy, row);
  }
}

void CopyTileOnce(uint32_t to, const TensorMap& map, uint32_t barrier, Corner2 at) {
  CHECK_EQ(BoxOf(map).rank, 2) << "the tensor has another number of dimensions";
  StartCopy({to, BoxOf(map), {at.x, at.y}}, barrier);
}
void CopyTileOnce(uint32_t to, const TensorMap& map, uint32_t barrier, Corner4 at) {
  CHECK_EQ(BoxOf(map).rank, 4) << "the tensor has another number of dimensions";
  StartCopy({to, BoxOf(map), {at.x, at.y, at.z, at.w}}, barrier);
}

void StartProducts() { Mine(MyWarpgroup()).started = true; }

void PublishStores() {
  Warpgroup& group = MyWarpgroup();
  if (++group.publishing < kWarpgroup) {
    emulator::WaitUntil([&group, before = group.published] { return group.published != before; });
    return;
  }
  group.publishing = 0;
  ++group.published;
}

void QueueProduct(float* d, const Factors& factors) {
  Warpgroup& group = MyWarpgroup();
  Warpgroup::Thread& mine = Mine(group);
  CHECK(mine.started) << "StartProducts must come before products";
  if (mine.queued == group.products.size()) group.products.push_back({factors});
  Warpgroup::Product& product = group.products[mine.queued++];
  const Factors& first = product.factors;
  CHECK(first.wide == factors.wide && first.x == factors.x && first.y == factors.y &&
        first.transposed == factors.transposed)
      << "the threads of a warpgroup must start the same products";
  product.sums[ThreadIndex() % kWarpgroup] = d;
  product.held[ThreadIndex() % kWarpgroup] = factors.held;
}

void EndProducts() {
  Warpgroup& group = MyWarpgroup();
  Warpgroup::Thread& mine = Mine(group);
  mine.started = false;
  if (mine.ended == group.groups.size()) group.groups.push_back(mine.queued);
  CHECK_EQ(group.groups[mine.ended++], mine.queued)
      << "the threads of a warpgroup must end the same groups of products";
}

void FinishProducts(int pending) {
  Warpgroup& group = MyWarpgroup();
  if (++group.waiting < kWarpgroup) {
    emulator::WaitUntil([&group, waits = group.waits] { return group.waits != waits; });
    return;
  }
  group.waiting = 0;
  ++group.waits;
  const size_t ended = group.groups.size(), left = static_cast<size_t>(pending);
  const size_t until = ended > left ? group.groups[ended - 1 - left] : 0;
  for (; group.done < until; ++group.done) Multiply(group.products[group.done]);
}

}  // namespace bastion::kernels::cuda::simt
