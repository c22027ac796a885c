// The keyed choice of a token for every row, with several blocks per row. Each block reduces its
// tokens to one Entry (select.h). The largest Entry of a row wins, regardless of the order of the
// blocks. The block that finishes last writes the token.
#include "kernels/cuda/choose/noise.h"
#include "kernels/cuda/choose/select.h"
#include "kernels/cuda/choose/survivors.h"
#include "kernels/cuda/choose/truncation.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kThreads = 256;
constexpr int kBlockTokens = 4096;      // Tokens per block.
constexpr int kWarpTokens = 4 * kWarp;  // Tokens that a warp processes at a time.
static_assert(kNoiseTokens == 4);       // A lane processes four tokens at a time.

// Where the blocks of a row combine their results. Zero between launches.
struct RowResult {
  Entry best;
  uint32_t arrived;
  uint32_t unused;
};

// The scratch memory of a row. The places of rows do not depend on the number of rows.
struct RowScratch {
  RowResult result;
  TruncationRow truncation;  // Valid if the rule of the row truncates.
};

struct ChooseKernelArgs {
  ChooseArgs choose;
  RowScratch* rows = nullptr;  // [R]
};

// The tokens of one row that one block processes.
struct Section {
  const float* logits = nullptr;  // [V], the row
  int vocabulary = 0;
  int begin = 0;
  int end = 0;
  Survivors survivors;

  // The logits of tokens x … x + 3, −inf for tokens that do not survive.
  [[nodiscard]] SIMT_DEVICE FourValues Load(int x) const {
    FourValues four = LoadFour(logits, x, vocabulary);
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (!Survives(four.value[i], x + i, survivors)) four.value[i] = -Infinity();
    }
    return four;
  }
};

// The Entry of a value. NaN and −inf never win.
SIMT_DEVICE Entry Challenger(float value, int32_t token) {
  return value > -Infinity() ? EntryOf(value, token) : kNoEntry;
}

// Returns this thread's best logit.
SIMT_DEVICE Entry BestLogit(const Section& section) {
  Entry best = kNoEntry;
  for (int x = section.begin + 4 * ThreadIndex(); x < section.end; x += 4 * kThreads) {
    const FourValues logits = LoadFour(section.logits, x, section.vocabulary);
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) best = Better(best, Challenger(logits.value[i], x + i));
  }
  return best;
}

// Finds this thread's best logit/T + g. Few tokens can win, so the exact noise is computed only for
// tokens that pass two cheaper tests against a bound b. The first test excludes most tokens without
// a logarithm (as in kernels/cpu/choose.cc): with u = exp(−exp(−g)), token x exceeds b only if −ln
// u < exp(logit(x)/T − b), and −ln u >= 1 − u, so the test compares 1 − u with the right side. The
// second test compares logit/T + g with b, with g in float precision. The tokens that pass both are
// compared with each other, with g computed in double precision. The lanes of a warp do not
// diverge, and they share b, which increases as they advance.
class GumbelRace {
 public:
  SIMT_DEVICE GumbelRace(const Section& section, const ChoiceRule& rule)
      : section_(section), rule_(rule), inverse_(1.0f / rule.temperature) {}

  SIMT_DEVICE Entry Run() {
    for (int first = section_.begin + Warp() * kWarpTokens; first < section_.end;
         first += BlockWarps() * kWarpTokens) {
      Step(first + 4 * Lane());
    }
    return best_;
  }

 private:
  SIMT_DEVICE void Step(int x) {
    const FourValues logits = section_.Load(x);
    bool in_race = false;
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) in_race = in_race || logits.value[i] > -Infinity();
    if (Ballot(in_race) == 0) return;  // Truncation leaves few warps that need noise.
    const NoiseWords words = DrawWords(rule_, static_cast<uint32_t>(x) / kNoiseTokens);
    bool may_win[4], any = false;
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      may_win[i] = MayWin(logits.value[i], words.word[i]);
      any = any || may_win[i];
    }
    if (Ballot(any) == 0) return;
    float estimates[4], highest = -Infinity();
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      estimates[i] = -Infinity();
      if (!may_win[i]) continue;
      estimates[i] = logits.value[i] / rule_.temperature + GumbelEstimate(words.word[i]);
      highest = Max(highest, estimates[i]);
    }
    highest = WarpMax(highest);
    bound_ = Max(bound_, highest - Slack(highest));
    SIMT_UNROLL
    for (int i = 0; i < 4; ++i) {
      if (!may_win[i] || estimates[i] + Slack(bound_) < bound_) continue;
      const float value = logits.value[i] / rule_.temperature + Gumbel(words.word[i]);
      best_ = Better(best_, Challenger(value, x + i));
    }
  }

  // Returns false only for a token whose value is below the bound.
  [[nodiscard]] SIMT_DEVICE bool MayWin(float logit, uint32_t word) const {
    const float one_minus_u = static_cast<float>(~word >> 8) * 0x1p-24f;  // 1 − u, rounded down.
    return !(one_minus_u * 0.999f > Exp(logit * inverse_ - bound_ + 1e-3f + Slack(bound_)));
  }

  // An upper bound on the rounding error of float arithmetic for values of about this size.
  [[nodiscard]] static SIMT_DEVICE float Slack(float value) {
    return 1e-4f + 1e-6f * Max(value, -value);
  }

  const Section& section_;
  const ChoiceRule& rule_;
  const float inverse_;
  float bound_ = -Infinity();  // At least one token of this warp reaches it.
  Entry best_ = kNoEntry;      // This thread's best.
};

// Merges the block's best entry into the row's result. Called by one thread per block. The last
// block of the row writes the token.
SIMT_DEVICE void MergeIntoRow(const ChooseKernelArgs& args, int row, Entry best) {
  RowResult& result = args.rows[row].result;
  AtomicMax(&result.best, best);
  FenceDevice();
  if (AtomicAdd(&result.arrived, 1u) + 1 < static_cast<uint32_t>(Blocks().y)) return;
  FenceDevice();
  best = AtomicMax(&result.best, kNoEntry);
  args.choose.tokens[row] = best == kNoEntry ? -1 : TokenOf(best);
  result = {};
}

SIMT_KERNEL(kThreads, 4)
void ChooseKernel(ChooseKernelArgs args) {
  BeginKernel();
  const int row = Block().x;
  if (row >= args.choose.rows_used[0]) return;
  const ChoiceRule rule = args.choose.rules[row];
  if (Truncates(rule) && args.rows[row].truncation.chosen != 0) return;
  Section section;
  section.vocabulary = args.choose.vocabulary;
  section.logits = args.choose.logits + static_cast<int64_t>(row) * section.vocabulary;
  section.begin = Block().y * kBlockTokens;
  section.end = Min(section.begin + kBlockTokens, section.vocabulary);
  section.survivors = SurvivorsOf(rule, args.rows[row].truncation.survivors);
  Entry best = rule.temperature > 0 ? GumbelRace(section, rule).Run() : BestLogit(section);
  best = BestOfWarp(best);
  auto* partial = reinterpret_cast<Entry*>(DynamicShared());
  if (Lane() == 0) partial[Warp()] = best;
  SyncBlock();
  if (ThreadIndex() != 0) return;
  for (int warp = 1; warp < BlockWarps(); ++warp) best = Better(best, partial[warp]);
  MergeIntoRow(args, row, best);
}

}  // namespace

void Choose(const ChooseArgs& args, Stream& stream) {
  ChooseKernelArgs kernel_args = {args};
  kernel_args.rows = static_cast<RowScratch*>(args.scratch);
  char* const truncation = static_cast<char*>(args.scratch) + offsetof(RowScratch, truncation);
  Truncate({args.rows_used, args.logits, args.rules, truncation, sizeof(RowScratch), args.tokens,
            args.rows, args.vocabulary},
           stream);
  const int blocks = (args.vocabulary + kBlockTokens - 1) / kBlockTokens;
  Launch(stream, ChooseKernel, {{args.rows, blocks}, kThreads, kThreads / kWarp * sizeof(Entry)},
         kernel_args);
}

size_t ChooseScratchBytes(int rows) { return static_cast<size_t>(rows) * sizeof(RowScratch); }

}  // namespace bastion::kernels::cuda
