// Top-k, top-p and min-p, without sorting the row. Rank the tokens by descending logit, then by
// ascending id: top-k, top-p and min-p each keep a prefix of this ranking. So the kernels only have
// to find the cut, which is the last entry of the prefix.
//
// The cut is usually among the best thousand tokens. Two kernels gather these tokens, each with
// several blocks per row, so that one row uses several multiprocessors. The first one finds the
// best token of each strip of the row, and its last block finds a floor for the tokens to gather.
// The second one gathers them, and its last block searches for the cut in shared memory. If the
// distribution is too flat for that, it searches the whole row. Masses are integers, so every
// order of their sums gives the same bits.
//
// Cost for a vocabulary of 152,000 (not measured): two launches with 19 blocks per row. Both read
// the row, 0.6 MB, the second time from the L2 cache: 39 MB for 64 rows. In each kernel, a thread
// loads eight logits at once. Then the last block selects: three passes over about 2,400 strips in
// the first kernel, and eight over the shortlist for top-k and top-p in the second. It then chooses
// the token, so the kernel of choose.cu has nothing left to do.
#include "kernels/cuda/choose/noise.h"
#include "kernels/cuda/choose/select.h"
#include "kernels/cuda/choose/survivors.h"
#include "kernels/cuda/choose/truncation.h"
#include "kernels/cuda/simt/last_block.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

static_assert(kTruncationEntries == kShortlist);

// The unnormalized probability of a token. The most likely token has mass 1. In fixed point, mass 1
// is 2⁴⁰, so that the sum over 2²² tokens fits in 64 bits.
class Masses {
 public:
  SIMT_DEVICE Masses(float highest, float temperature)
      : highest_(highest), temperature_(temperature) {}

  SIMT_DEVICE float Of(Entry entry) const {
    return Exp((ValueOf(entry) - highest_) / temperature_);
  }
  SIMT_DEVICE uint64_t FixedPoint(Entry entry) const {
    return static_cast<uint64_t>(Of(entry) * 0x1p40f);
  }

 private:
  float highest_;
  float temperature_;
};

// The total mass of the entries >= `cut`.
SIMT_DEVICE uint64_t TotalMass(const Tokens& tokens, Entry cut, const Masses& masses,
                               SelectMemory& memory) {
  uint64_t total = 0;
  tokens.ForEach([&](Entry entry, int) { total += entry < cut ? 0 : masses.FixedPoint(entry); });
  return SumOfBlock(total, memory);
}

// The mass that top-p has to keep: the smallest integer >= top_p · total. It is at least 1, so that
// the most likely token always survives.
SIMT_DEVICE uint64_t TargetMass(float top_p, uint64_t total) {
  const double wanted = static_cast<double>(top_p) * static_cast<double>(total);
  const auto whole = wanted > 0 ? static_cast<uint64_t>(wanted) : 0;
  const uint64_t target = static_cast<double>(whole) < wanted ? whole + 1 : whole;
  return target > 0 ? target : 1;
}

// The state of one row's truncation.
struct TruncationState {
  Tokens row;
  Tokens tokens;         // The tokens to search for the next cut: the row or a shortlist of it.
  Entry cut = kNoEntry;  // The cut so far.
  uint64_t total = 0;    // The total mass of the entries >= cut.
};

SIMT_DEVICE void CutTopK(TruncationState& state, int k, const Masses& masses,
                         SelectMemory& memory) {
  state.cut = ValueOfRank(state.tokens, k, memory);
  state.total = TotalMass(state.tokens, state.cut, masses, memory);
}

SIMT_DEVICE void CutTopP(TruncationState& state, float top_p, const Masses& masses,
                         SelectMemory& memory) {
  const uint64_t target = TargetMass(top_p, state.total);
  if (state.tokens.list != nullptr && TotalMass(state.tokens, state.cut, masses, memory) < target) {
    state.tokens = state.row;
  }
  // Select needs no filter for the entries below the current cut: going down the ranking, the sum
  // reaches `target` before the cut.
  state.cut = Select(
      state.tokens, {target, true}, [&](Entry entry) { return masses.FixedPoint(entry); }, memory);
}

SIMT_DEVICE void CutMinP(TruncationState& state, float min_p, const Masses& masses,
                         SelectMemory& memory) {
  Entry last = kNanEntry;  // The lowest entry that survives.
  state.tokens.ForEach([&](Entry entry, int) {
    if (entry >= state.cut && entry < last && masses.Of(entry) >= min_p) last = entry;
  });
  state.cut = ~BestOfBlock(~last, memory);
}

struct TruncateKernelArgs {
  TruncateArgs args;
  int section = 0;  // Tokens of a block, a multiple of 4 · kSelectThreads.
  int strips = 0;   // Strips of a block, a power of two from 32 to kSelectThreads.

  [[nodiscard]] SIMT_DEVICE TruncationRow& RowAt(int row) const {
    return *reinterpret_cast<TruncationRow*>(args.scratch + row * args.stride);
  }
};

// Whether tokens of a row with this best value have masses.
SIMT_DEVICE bool IsFinite(float highest) { return highest > -Infinity() && highest < Infinity(); }

// How many of the best entries the shortlist of a row must have; 0 if there is none.
SIMT_DEVICE int WantedEntries(const ChoiceRule& rule, int vocabulary) {
  if (rule.top_k > 0 && rule.top_k < vocabulary) {
    return rule.top_k <= kMaxSelected ? rule.top_k : 0;
  }
  return rule.top_p < 1 ? Min(kMaxSelected, vocabulary) : 0;
}

// Calls visit(entry) for this thread's tokens of the block's section.
template <typename Visit>
SIMT_DEVICE void ForEachOfSection(const TruncateKernelArgs& args, Visit visit) {
  const int vocabulary = args.args.vocabulary, begin = Block().y * args.section;
  const float* row = args.args.logits + static_cast<int64_t>(Block().x) * vocabulary;
  const int end = Min(begin + args.section, vocabulary);
  for (int first = begin + 4 * ThreadIndex(); first < end; first += 8 * kSelectThreads) {
    const int second = first + 4 * kSelectThreads;  // Issue two loads at a time.
    const FourValues four[2] = {LoadFour(row, first, end), LoadFour(row, second, end)};
    SIMT_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int token = (i < 4 ? first : second) + i % 4;
      if (token < end) visit(EntryOf(four[i / 4].value[i % 4], token));
    }
  }
}

// Finds the best entry of the row, and a floor that the wanted entries reach: that of the strips'
// best entries. If the best tokens are spread over the strips, only slightly more reach it.
SIMT_KERNEL(kSelectThreads, 1)
void FloorKernel(TruncateKernelArgs args) {
  BeginKernel();
  if (Block().x >= args.args.rows_used[0]) return;
  const ChoiceRule rule = args.args.rules[Block().x];
  if (!Truncates(rule)) return;
  auto& memory = *reinterpret_cast<SelectMemory*>(DynamicShared());
  TruncationRow& row = args.RowAt(Block().x);
  Entry best = kNoEntry;
  ForEachOfSection(args, [&](Entry entry) { best = Better(best, entry); });
  const int threads = kSelectThreads / args.strips;  // Threads of a strip.
  for (int step = threads / 2; step > 0; step /= 2) best = Better(best, ShuffleXor(best, step));
  if (ThreadIndex() % threads == 0) {
    row.list[Block().y * args.strips + ThreadIndex() / threads] = best;
  }
  if (!IsLastBlock(&row.arrived, Blocks().y, &memory.gathered)) return;
  const int strips = Blocks().y * args.strips;
  best = kNoEntry;
  for (int i = ThreadIndex(); i < strips; i += kSelectThreads) {
    memory.list[i] = row.list[i];
    best = Better(best, row.list[i]);
  }
  best = BestOfBlock(best, memory);
  const int wanted = WantedEntries(rule, args.args.vocabulary);
  const bool searches = wanted > 0 && wanted <= strips;
  const Entry floor =
      searches ? ValueOfRank({nullptr, memory.list, strips}, wanted, memory) : kNoEntry;
  if (ThreadIndex() != 0) return;
  row.best = best;
  row.floor = floor;
}

// Adds the block's section to the shortlist of the row.
SIMT_DEVICE void GatherSection(const TruncateKernelArgs& args, TruncationRow& row,
                               const Masses* masses, SelectMemory& memory) {
  const Entry floor = row.floor;
  uint64_t total = 0;
  if (ThreadIndex() == 0) memory.gathered = 0;
  SyncBlock();
  ForEachOfSection(args, [&](Entry entry) {
    if (masses != nullptr) total += masses->FixedPoint(entry);
    if (entry < floor) return;
    const int at = AtomicAdd(&memory.gathered, 1);
    if (at < kShortlist) memory.list[at] = entry;
  });
  if (masses != nullptr) {
    total = SumOfBlock(total, memory);
  } else {
    SyncBlock();
  }
  const int count = memory.gathered;
  SyncBlock();
  if (ThreadIndex() == 0) {
    if (masses != nullptr) AtomicAdd(&row.total, total);
    memory.bin = AtomicAdd(&row.gathered, count);
  }
  SyncBlock();
  const int first = memory.bin;
  for (int i = ThreadIndex(); i < Min(count, kShortlist); i += kSelectThreads) {
    if (first + i < kShortlist) row.list[first + i] = memory.list[i];
  }
}

// Finds the survivors of the row in its shortlist or, without one, in the whole row.
SIMT_DEVICE Survivors CutRow(const TruncateArgs& args, const ChoiceRule& rule,
                             const TruncationRow& row, TruncationState& state,
                             SelectMemory& memory) {
  const float highest = ValueOf(row.best);  // NaN if any value of the row is NaN.
  if (!IsFinite(highest)) return {Infinity(), -1};
  state.row = {args.logits + static_cast<int64_t>(Block().x) * args.vocabulary, nullptr,
               args.vocabulary};
  state.tokens = state.row;
  state.total = row.total;
  if (WantedEntries(rule, args.vocabulary) > 0 && row.gathered <= kShortlist) {
    for (int i = ThreadIndex(); i < row.gathered; i += kSelectThreads) memory.list[i] = row.list[i];
    state.tokens = {nullptr, memory.list, row.gathered};
    SyncBlock();
  }
  const Masses masses(highest, rule.temperature);
  if (rule.top_k > 0 && rule.top_k < args.vocabulary) CutTopK(state, rule.top_k, masses, memory);
  if (rule.top_p < 1) CutTopP(state, rule.top_p, masses, memory);
  if (rule.min_p > 0) CutMinP(state, rule.min_p, masses, memory);
  // Top-k may set a cut that is a value without an id. The mask turns the missing id into
  // INT32_MAX, so that all tokens with this value survive. With kNanEntry, no token survives.
  if (state.cut == kNoEntry) return {-Infinity(), INT32_MAX};
  if (state.cut == kNanEntry) return {Infinity(), -1};
  return {ValueOf(state.cut), TokenOf(state.cut) & INT32_MAX};
}

// Makes the keyed choice (choose.cu) among the survivors. They are all in `shortlist`, and few, so
// that computing their exact noise costs less than a bound would.
SIMT_DEVICE Entry BestSurvivor(const Tokens& shortlist, const Survivors& survivors,
                               const ChoiceRule& rule, SelectMemory& memory) {
  Entry best = kNoEntry;
  shortlist.ForEach([&](Entry entry, int) {
    const float logit = ValueOf(entry);
    const int32_t token = TokenOf(entry);
    if (!Survives(logit, token, survivors)) return;
    const auto id = static_cast<uint32_t>(token);
    const uint32_t word = DrawWords(rule, id / kNoiseTokens).Of(id % kNoiseTokens);
    const float value = logit / rule.temperature + Gumbel(word);
    if (value > -Infinity()) best = Better(best, EntryOf(value, token));
  });
  return BestOfBlock(best, memory);
}

SIMT_KERNEL(kSelectThreads, 1)
void CutKernel(TruncateKernelArgs args) {
  BeginKernel();
  if (Block().x >= args.args.rows_used[0]) return;
  const ChoiceRule rule = args.args.rules[Block().x];
  if (!Truncates(rule)) return;
  auto& memory = *reinterpret_cast<SelectMemory*>(DynamicShared());
  TruncationRow& row = args.RowAt(Block().x);
  const float highest = ValueOf(row.best);
  if (IsFinite(highest) && WantedEntries(rule, args.args.vocabulary) > 0) {
    // Top-k computes the mass of its own entries.
    const Masses masses(highest, rule.temperature);
    const bool sums = rule.top_k <= 0 || rule.top_k >= args.args.vocabulary;
    GatherSection(args, row, sums ? &masses : nullptr, memory);
  }
  if (!IsLastBlock(&row.arrived, Blocks().y, &memory.gathered)) return;
  TruncationState state;
  const Survivors survivors = CutRow(args.args, rule, row, state, memory);
  SyncBlock();
  const bool chooses = args.args.tokens != nullptr && state.tokens.list != nullptr;
  Entry best = kNoEntry;
  if (chooses) best = BestSurvivor(state.tokens, survivors, rule, memory);
  if (ThreadIndex() != 0) return;
  if (chooses) args.args.tokens[Block().x] = best == kNoEntry ? -1 : TokenOf(best);
  row.chosen = chooses ? 1 : 0;
  row.survivors = survivors;
  row.total = 0;
  row.gathered = 0;
}

}  // namespace

void Truncate(const TruncateArgs& args, Stream& stream) {
  constexpr int kMaxBlocks = 128;  // At least 32 strips each.
  TruncateKernelArgs kernel_args = {args, 8 * kSelectThreads, kSelectThreads};
  while ((args.vocabulary + kernel_args.section - 1) / kernel_args.section > kMaxBlocks) {
    kernel_args.section *= 2;
  }
  const int blocks = (args.vocabulary + kernel_args.section - 1) / kernel_args.section;
  while (kernel_args.strips * blocks > kTruncationEntries) kernel_args.strips /= 2;
  const LaunchShape shape = {{args.rows, blocks}, kSelectThreads, sizeof(SelectMemory)};
  Launch(stream, FloorKernel, shape, kernel_args);
  Launch(stream, CutKernel, shape, kernel_args);
}

}  // namespace bastion::kernels::cuda
