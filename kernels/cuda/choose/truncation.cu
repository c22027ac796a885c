// Top-k, top-p and min-p, with one block per row and without sorting the row. Rank the tokens by
// descending logit, then by ascending id: top-k, top-p and min-p each keep a prefix of this
// ranking. So the kernel only has to find the cut, which is the last entry of the prefix.
//
// The cut is usually among the best thousand tokens. Two passes over the row gather these tokens in
// shared memory, and the kernel searches for the cut there. If the distribution is too flat for
// that, the kernel searches the whole row. Masses are integers, so the order of their sums does not
// matter.
#include "kernels/cuda/choose/select.h"
#include "kernels/cuda/choose/survivors.h"
#include "kernels/cuda/choose/truncation.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

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

// Sets state.tokens to a shortlist in shared memory: the best `wanted` entries and a few more. If
// they do not fit, leaves state.tokens unchanged. REQUIRES: FindStrips was the last function that
// used `memory`.
SIMT_DEVICE void Shorten(TruncationState& state, int wanted, const Masses& masses,
                         SelectMemory& memory) {
  uint64_t total = 0;
  const int count = Gather(state.row, FloorOf(wanted, memory), memory,
                           [&](Entry entry) { total += masses.FixedPoint(entry); });
  state.total = SumOfBlock(total, memory);
  if (count <= kShortlist) state.tokens = {nullptr, memory.list, count};
}

SIMT_DEVICE void CutTopK(TruncationState& state, int k, const Masses& masses,
                         SelectMemory& memory) {
  if (k <= kMaxSelected) Shorten(state, k, masses, memory);
  state.cut = ValueOfRank(state.tokens, k, memory);
  state.total = TotalMass(state.tokens, state.cut, masses, memory);
}

SIMT_DEVICE void CutTopP(TruncationState& state, float top_p, const Masses& masses,
                         SelectMemory& memory) {
  if (state.cut == kNoEntry) Shorten(state, Min(kMaxSelected, state.row.count), masses, memory);
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

SIMT_KERNEL(kSelectThreads, 1)
void TruncateKernel(TruncateArgs args) {
  BeginKernel();
  const int row = Block().x;
  if (row >= args.rows_used[0]) return;
  const ChoiceRule rule = args.rules[row];
  if (!Truncates(rule)) return;
  auto& memory = *reinterpret_cast<SelectMemory*>(DynamicShared());
  const float* logits = args.logits + static_cast<int64_t>(row) * args.vocabulary;
  TruncationState state;
  state.row = state.tokens = {logits, nullptr, args.vocabulary};
  const Entry best = FindStrips(state.row, memory);
  const float highest = ValueOf(best);  // NaN if any value of the row is NaN.
  Survivors survivors = {Infinity(), -1};
  if (highest > -Infinity() && highest < Infinity()) {
    const Masses masses(highest, rule.temperature);
    if (rule.top_k > 0 && rule.top_k < args.vocabulary) CutTopK(state, rule.top_k, masses, memory);
    if (rule.top_p < 1) CutTopP(state, rule.top_p, masses, memory);
    if (rule.min_p > 0) CutMinP(state, rule.min_p, masses, memory);
    // Top-k may set a cut that is a value without an id. The mask turns the missing id into
    // INT32_MAX, so that all tokens with this value survive. With kNanEntry, no token survives.
    if (state.cut == kNoEntry) {
      survivors = {-Infinity(), INT32_MAX};
    } else if (state.cut != kNanEntry) {
      survivors = {ValueOf(state.cut), TokenOf(state.cut) & INT32_MAX};
    }
  }
  if (ThreadIndex() == 0) args.survivors[row] = survivors;
}

}  // namespace

void Truncate(const TruncateArgs& args, Stream& stream) {
  Launch(stream, TruncateKernel, {{args.rows}, kSelectThreads, sizeof(SelectMemory)}, args);
}

}  // namespace bastion::kernels::cuda
