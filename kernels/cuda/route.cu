// The choice of experts, and the rows of each expert, in one kernel. A warp chooses for a row. The
// block that finishes last groups the choices of all rows: a thread has an expert. No size that
// depends on the data leaves the device, so that the kernel can be recorded as a graph.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/last_block.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kThreads = kMaxExperts;
constexpr int kWarps = kThreads / kWarp;
constexpr int kSliceRows = 256;  // Rows that are grouped at once.
constexpr int kWords = kSliceRows / 32;

// A candidate of a choice. `id` is -1 if there is none.
struct Candidate {
  float value;
  int id;
};
SIMT_DEVICE bool Better(const Candidate& a, const Candidate& b) {
  if (a.id < 0 || b.id < 0) return a.id >= 0;
  return a.value > b.value || (a.value == b.value && a.id < b.id);
}
// Returns the best candidate of the warp to all of its lanes.
SIMT_DEVICE Candidate BestOfWarp(Candidate best) {
  SIMT_UNROLL
  for (int step = kWarp / 2; step > 0; step /= 2) {
    const Candidate other = {ShuffleXor(best.value, step), ShuffleXor(best.id, step)};
    if (Better(other, best)) best = other;
  }
  return best;
}

// Returns the lane's logits that were chosen, as bits: bit c is expert c * 32 + lane.
template <int per_lane>
SIMT_DEVICE uint32_t ChooseExperts(const float (&logits)[per_lane], const RouteArgs& args) {
  uint32_t chosen = 0;
  for (int choice = 0; choice < args.chosen; ++choice) {
    Candidate best = {0, -1};
    SIMT_UNROLL
    for (int c = 0; c < per_lane; ++c) {
      const int id = c * kWarp + Lane();
      const Candidate candidate = {logits[c], id};
      const bool free = id < args.experts_total && (chosen >> c & 1u) == 0;
      if (free && Better(candidate, best)) best = candidate;
    }
    best = BestOfWarp(best);
    if (best.id % kWarp == Lane()) chosen |= 1u << (best.id / kWarp);
  }
  return chosen;
}

// Chooses for a row. Lane l holds the logits l, l + 32, ….
template <int per_lane>
SIMT_DEVICE void RouteRow(const RouteArgs& args, int64_t row) {
  const float* from = args.logits + row * args.experts_total;
  float logits[per_lane], largest = -Infinity();
  SIMT_UNROLL
  for (int c = 0; c < per_lane; ++c) {
    const int id = c * kWarp + Lane();
    const float value = id < args.experts_total ? from[id] : -Infinity();
    logits[c] = value == value ? value : -Infinity();  // A NaN is never better than a number.
    largest = Max(largest, logits[c]);
  }
  largest = WarpMax(largest);
  const uint32_t chosen = ChooseExperts(logits, args);
  float total = 0;
  SIMT_UNROLL
  for (int c = 0; c < per_lane; ++c) {
    const bool counted = c * kWarp + Lane() < args.experts_total;
    logits[c] = counted ? Exp(logits[c] - largest) : 0.0f;
    if (!args.normalize || (chosen >> c & 1u) != 0) total += logits[c];
  }
  total = WarpSum(total);
  int64_t place = row * args.chosen;
  SIMT_UNROLL
  for (int c = 0; c < per_lane; ++c) {
    const bool mine = (chosen >> c & 1u) != 0;
    const uint32_t lanes = Ballot(mine);
    if (mine) {
      const int64_t at = place + PopCount(lanes & ((1u << Lane()) - 1));
      args.experts[at] = c * kWarp + Lane();
      args.weights[at] = logits[c] / total;
    }
    place += PopCount(lanes);
  }
}

struct GroupMemory {
  // Bit b of rows[w][e] is set if row 32 w + b of the slice chose expert e.
  uint32_t rows[kWords][kMaxExperts];
  int32_t next[kMaxExperts];  // The place of the expert's first row in the slice.
  uint64_t partial[kWarps];
  int32_t is_last;
};

// Sets memory.rows for the slice that begins at row `first`.
SIMT_DEVICE void MarkRows(const GroupedRouteArgs& args, int first, int end, GroupMemory& memory) {
  SIMT_UNROLL
  for (int word = 0; word < kWords; ++word) memory.rows[word][ThreadIndex()] = 0;
  SyncBlock();
  const int chosen = args.route.chosen;
  for (int i = first * chosen + ThreadIndex(); i < end * chosen; i += kThreads) {
    const int row = i / chosen - first;
    AtomicAdd(&memory.rows[row / 32][args.route.experts[i]], 1u << (row % 32));
  }
  SyncBlock();
}

// Rows of the slice that chose this thread's expert.
SIMT_DEVICE int CountRows(const GroupMemory& memory) {
  int count = 0;
  SIMT_UNROLL
  for (int word = 0; word < kWords; ++word) count += PopCount(memory.rows[word][ThreadIndex()]);
  return count;
}

// Gives the choices of the slice their places.
SIMT_DEVICE void PlaceRows(const GroupedRouteArgs& args, int first, int end,
                           const GroupMemory& memory) {
  const int chosen = args.route.chosen;
  for (int i = first * chosen + ThreadIndex(); i < end * chosen; i += kThreads) {
    const int row = i / chosen - first, expert = args.route.experts[i];
    int place = memory.next[expert];
    for (int word = 0; word < row / 32; ++word) place += PopCount(memory.rows[word][expert]);
    place += PopCount(memory.rows[row / 32][expert] & ((1u << (row % 32)) - 1));
    args.sources[place] = first + row;
    args.places[i] = place;
  }
}

// Counts of places, of tiles, and of experts that have places. They are packed, so that they are
// added up together.
struct Counts {
  uint64_t packed = 0;

  SIMT_DEVICE static Counts Of(int places) {
    const uint64_t tiles = (places + kMaxExpertRows - 1) / kMaxExpertRows;
    return {static_cast<uint64_t>(places) | tiles << 32 | uint64_t{places > 0} << 52};
  }
  [[nodiscard]] SIMT_DEVICE int places() const { return static_cast<int>(packed & 0xFFFFFFFFu); }
  [[nodiscard]] SIMT_DEVICE int tiles() const { return static_cast<int>(packed >> 32 & 0xFFFFF); }
  [[nodiscard]] SIMT_DEVICE int experts() const { return static_cast<int>(packed >> 52); }
};

// The sum of the threads up to this one.
SIMT_DEVICE Counts SumThrough(Counts counts, GroupMemory& memory) {
  uint64_t sum = counts.packed;
  SIMT_UNROLL
  for (int step = 1; step < kWarp; step *= 2) {
    const uint64_t before = Shuffle(sum, Lane() - step);
    if (Lane() >= step) sum += before;
  }
  if (Lane() == kWarp - 1) memory.partial[Warp()] = sum;
  SyncBlock();
  for (int warp = 0; warp < Warp(); ++warp) sum += memory.partial[warp];
  return {sum};
}

// Stores what the products read about this thread's expert. `through` includes its `count` places.
SIMT_DEVICE void StoreExpert(const GroupedRouteArgs& args, int count, Counts through) {
  const int expert = ThreadIndex(), begin = through.places() - count;
  if (expert < args.route.experts_total) args.begins[expert] = begin;
  ExpertRows* tile = args.tiles + through.tiles() - Counts::Of(count).tiles();
  for (int done = 0; done < count; done += kMaxExpertRows) {
    *tile++ = {expert, begin + done, Min(count - done, kMaxExpertRows), 0};
  }
  if (expert != kThreads - 1) return;
  args.begins[args.route.experts_total] = through.places();
  *args.tile_count = through.tiles();
  *args.touched = through.experts();
}

SIMT_DEVICE void GroupRows(const GroupedRouteArgs& args, GroupMemory& memory) {
  const int used = args.rows.used[0];
  int count = 0;
  for (int first = 0; first < used; first += kSliceRows) {
    MarkRows(args, first, Min(first + kSliceRows, used), memory);
    count += CountRows(memory);
    SyncBlock();
  }
  const Counts through = SumThrough(Counts::Of(count), memory);
  StoreExpert(args, count, through);
  memory.next[ThreadIndex()] = through.places() - count;
  SyncBlock();
  for (int first = 0; first < used; first += kSliceRows) {
    const int end = Min(first + kSliceRows, used);
    if (used > kSliceRows) MarkRows(args, first, end, memory);
    PlaceRows(args, first, end, memory);
    SyncBlock();
    memory.next[ThreadIndex()] += CountRows(memory);
    SyncBlock();
  }
  const int all = args.rows.row_capacity * args.route.chosen;
  for (int i = used * args.route.chosen + ThreadIndex(); i < all; i += kThreads) {
    args.places[i] = -1;
  }
}

template <int per_lane>
SIMT_KERNEL(kThreads, 1)
void RouteKernel(GroupedRouteArgs args) {
  BeginKernel();
  auto& memory = *reinterpret_cast<GroupMemory*>(DynamicShared());
  const int row = Block().x * kWarps + Warp();
  if (row < args.route.rows) RouteRow<per_lane>(args.route, row);
  if (IsLastBlock(args.arrived, Blocks().x, &memory.is_last)) GroupRows(args, memory);
}

}  // namespace

void Route(const GroupedRouteArgs& args, Stream& stream) {
  const int blocks = (args.route.rows + kWarps - 1) / kWarps;
  const LaunchShape shape = {{blocks}, kThreads, sizeof(GroupMemory)};
  if (args.route.experts_total <= 4 * kWarp) {
    Launch(stream, RouteKernel<4>, shape, args);
  } else {
    Launch(stream, RouteKernel<kMaxExperts / kWarp>, shape, args);
  }
}

}  // namespace bastion::kernels::cuda
