// Top-k, top-p and min-p, one block a row, without sorting it. The three leave a beginning of the
// ranking in the race (by falling logit, then rising id), so each is a cut: the last entry that
// stays.
//
// Mostly the cut is among the best thousand tokens. Those are gathered in shared memory in two
// passes over the row, and the rest happens there; a flatter row is selected from where it lies.
// Masses are integers: sums of them have no order.
#include "kernels/cuda/choose/select.h"
#include "kernels/cuda/choose/survivors.h"
#include "kernels/cuda/choose/truncation.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

// Mass of a token, unnormalised: the likeliest has 1, and 2²² of those still fit in 64 bits.
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

// Of the entries from `cut` up.
SIMT_DEVICE uint64_t TotalMass(const Tokens& tokens, Entry cut, const Masses& masses,
                               SelectMemory& memory) {
  uint64_t total = 0;
  tokens.ForEach([&](Entry entry, int) { total += entry < cut ? 0 : masses.Fixed(entry); });
  return SumOfBlock(total, memory);
}

// Mass at which top-p has enough: the least integer that is not below top_p · total. The likeliest
// token always stays.
SIMT_DEVICE uint64_t EnoughMass(float top_p, uint64_t total) {
  const double wanted = static_cast<double>(top_p) * static_cast<double>(total);
  const auto whole = wanted > 0 ? static_cast<uint64_t>(wanted) : 0;
  const uint64_t enough = static_cast<double>(whole) < wanted ? whole + 1 : whole;
  return enough > 0 ? enough : 1;
}

// One row's race: which of its tokens are still to be looked at, and the cut so far.
struct Race {
  Tokens row;
  Tokens tokens;
  Entry cut = kNoEntry;
  uint64_t total = 0;  // Mass from the cut up.
};

// After FindStrips: narrows race.tokens to a list of the best `wanted` and some more, if they fit.
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
  // What is below the cut so far comes after the mass is enough.
  race.cut = Select(
      race.tokens, {enough, true}, [&](Entry entry) { return masses.Fixed(entry); }, memory);
}

SIMT_DEVICE void CutMinP(Race& race, float min_p, const Masses& masses, SelectMemory& memory) {
  Entry last = kBrokenEntry;  // Of those that stay.
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
  const float highest = ValueOf(best);  // NaN if any of the row is.
  Survivors survivors = {Infinity(), -1};
  if (highest > -Infinity() && highest < Infinity()) {
    const Masses masses(highest, rule.temperature);
    if (rule.top_k > 0 && rule.top_k < args.vocabulary) CutTopK(race, rule.top_k, masses, memory);
    if (rule.top_p < 1) CutTopP(race, rule.top_p, masses, memory);
    if (rule.min_p > 0) CutMinP(race, rule.min_p, masses, memory);
    // Without an id of its own the cut is below all ids: INT32_MAX. kBrokenEntry lets nobody pass.
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
