// Top-k, top-p and min-p, with one block per row and without sorting the row. Each of the three
// keeps the first tokens of the ranking (by descending logit, then ascending id). So each one only
// has to find its cut: the last entry that survives.
//
// The cut is usually among the best thousand tokens. Two passes over the row gather them in shared
// memory, and the cut is searched there. If the distribution is too flat for that, the cut is
// searched in the row itself. Masses are integers, so the order of their sums does not matter.
#include "kernels/cuda/choose/select.h"
#include "kernels/cuda/choose/survivors.h"
#include "kernels/cuda/choose/truncation.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

// The unnormalized mass of a token. The most likely token has mass 1, as an integer 2⁴⁰, so that
// the sum over 2²² tokens fits in 64 bits.
class Masses {
 public:
  SIMT_DEVICE Masses(float highest, float temperature)
      : highest_(highest), temperature_(temperature) {}

  SIMT_DEVICE float Of(Entry entry) const {
    return Exp((ValueOf(entry) - highest_) / temperature_);
  }
  SIMT_DEVICE uint64_t Fixed(Entry entry) const {
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
  tokens.ForEach([&](Entry entry, int) { total += entry < cut ? 0 : masses.Fixed(entry); });
  return SumOfBlock(total, memory);
}

// The mass at which top-p stops: the smallest integer >= top_p · total, but at least 1, so that the
// most likely token always survives.
SIMT_DEVICE uint64_t EnoughMass(float top_p, uint64_t total) {
  const double wanted = static_cast<double>(top_p) * static_cast<double>(total);
  const auto whole = wanted > 0 ? static_cast<uint64_t>(wanted) : 0;
  const uint64_t enough = static_cast<double>(whole) < wanted ? whole + 1 : whole;
  return enough > 0 ? enough : 1;
}

// The state of one row's truncation.
struct Race {
  Tokens row;
  Tokens tokens;         // The tokens to search for the next cut: the row or a shortlist of it.
  Entry cut = kNoEntry;  // The cut so far.
  uint64_t total = 0;    // The total mass of the entries >= cut.
};

// Narrows race.tokens to a list of the best `wanted` entries and a few more, if they fit in shared
// memory. REQUIRES: FindStrips ran last.
SIMT_DEVICE void Shorten(Race& race, int wanted, const Masses& masses, SelectMemory& memory) {
  uint64_t total = 0;
  const int count = Gather(race.row, FloorOf(wanted, memory), memory,
                           [&](Entry entry) { total += masses.Fixed(entry); });
  race.total = SumOfBlock(total, memory);
  if (count <= kShortlist) race.tokens = {nullptr, memory.list, count};
}

SIMT_DEVICE void CutTopK(Race& race, int k, const Masses& masses, SelectMemory& memory) {
  if (k <= kMostSelected) Shorten(race, k, masses, memory);
  race.cut = ValueOfRank(race.tokens, k, memory);
  race.total = TotalMass(race.tokens, race.cut, masses, memory);
}

SIMT_DEVICE void CutTopP(Race& race, float top_p, const Masses& masses, SelectMemory& memory) {
  if (race.cut == kNoEntry) Shorten(race, Min(kMostSelected, race.row.count), masses, memory);
  const uint64_t enough = EnoughMass(top_p, race.total);
  if (race.tokens.list != nullptr && TotalMass(race.tokens, race.cut, masses, memory) < enough) {
    race.tokens = race.row;
  }
  // Select needs no filter for entries below the present cut: the sum reaches `enough` before it
  // gets to them.
  race.cut = Select(
      race.tokens, {enough, true}, [&](Entry entry) { return masses.Fixed(entry); }, memory);
}

SIMT_DEVICE void CutMinP(Race& race, float min_p, const Masses& masses, SelectMemory& memory) {
  Entry last = kBrokenEntry;  // The lowest entry that survives.
  race.tokens.ForEach([&](Entry entry, int) {
    if (entry >= race.cut && entry < last && masses.Of(entry) >= min_p) last = entry;
  });
  race.cut = ~BestOfBlock(~last, memory);
}

SIMT_KERNEL(kSelectThreads, 1)
void TruncateKernel(TruncateArgs args) {
  const int row = Block().x;
  if (row >= args.rows_used[0]) return;
  const ChoiceRule rule = args.rules[row];
  if (!Truncates(rule)) return;
  auto& memory = *reinterpret_cast<SelectMemory*>(DynamicShared());
  const float* logits = args.logits + static_cast<int64_t>(row) * args.vocabulary;
  Race race;
  race.row = race.tokens = {logits, nullptr, args.vocabulary};
  const Entry best = FindStrips(race.row, memory);
  const float highest = ValueOf(best);  // NaN if any value of the row is NaN.
  Survivors survivors = {Infinity(), -1};
  if (highest > -Infinity() && highest < Infinity()) {
    const Masses masses(highest, rule.temperature);
    if (rule.top_k > 0 && rule.top_k < args.vocabulary) CutTopK(race, rule.top_k, masses, memory);
    if (rule.top_p < 1) CutTopP(race, rule.top_p, masses, memory);
    if (rule.min_p > 0) CutMinP(race, rule.min_p, masses, memory);
    // A cut that is only a value has no id; the mask turns it into INT32_MAX, so that all tokens
    // with this value survive. With kBrokenEntry no token survives.
    if (race.cut == kNoEntry) {
      survivors = {-Infinity(), INT32_MAX};
    } else if (race.cut != kBrokenEntry) {
      survivors = {ValueOf(race.cut), TokenOf(race.cut) & INT32_MAX};
    }
  }
  if (ThreadIndex() == 0) args.survivors[row] = survivors;
}

}  // namespace

void Truncate(const TruncateArgs& args, Stream& stream) {
  Launch(stream, TruncateKernel, {{args.rows}, kSelectThreads, sizeof(SelectMemory)}, args);
}

}  // namespace bastion::kernels::cuda
