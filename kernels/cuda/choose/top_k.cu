// The drafter's top candidates, or the log-probabilities of a text, with one block per row. A block
// does not sort its row. It makes two passes over the row (select.h) and sorts the few remaining
// tokens in shared memory.
//
// If the drafter is coupled to the choice, another kernel first computes the values that the choice
// would compare. That kernel uses the whole GPU, because the noise costs far more than the passes.
#include "common/base/check.h"
#include "kernels/cuda/choose/noise.h"
#include "kernels/cuda/choose/select.h"
#include "kernels/cuda/choose/survivors.h"
#include "kernels/cuda/choose/truncation.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kNoiseThreads = 256;
static_assert(kMaxCandidates <= kMaxSelected);
static_assert(kNoiseTokens == 4);  // A thread of NoiseKernel processes four tokens.

struct TopKKernelArgs {
  TopKArgs top_k;
  char* scratch = nullptr;  // R rows: a TruncationRow, and the noisy values of a coupled row [V].
  size_t stride = 0;        // Bytes from one row to the next, a multiple of 16.

  // Valid for coupled rows whose rule truncates.
  [[nodiscard]] SIMT_DEVICE const Survivors& SurvivorsAt(int row) const {
    return reinterpret_cast<const TruncationRow*>(scratch + row * stride)->survivors;
  }
  [[nodiscard]] SIMT_DEVICE float* NoisyAt(int row) const {
    return reinterpret_cast<float*>(scratch + row * stride + sizeof(TruncationRow));
  }
};
static_assert(sizeof(TruncationRow) % 16 == 0);

SIMT_DEVICE bool IsCoupled(const TopKArgs& args, int row) {
  return args.coupling != nullptr && args.coupling[row].temperature > 0;
}

// The random words of the tokens of columns x … x + 3. REQUIRES: x % 4 == 0.
SIMT_DEVICE NoiseWords WordsOf(const TopKArgs& args, const ChoiceRule& rule, int x) {
  if (args.ids == nullptr) return DrawWords(rule, static_cast<uint32_t>(x) / kNoiseTokens);
  NoiseWords words = {}, drawn = {};
  uint32_t group = ~0u;  // No token is in this group.
  SIMT_UNROLL
  for (int i = 0; i < kNoiseTokens; ++i) {
    const int column = x + i < args.vocabulary ? x + i : args.vocabulary - 1;
    const auto token = static_cast<uint32_t>(args.ids[column]);
    if (token / kNoiseTokens != group) {
      group = token / kNoiseTokens;
      drawn = DrawWords(rule, group);
    }
    words.word[i] = drawn.Of(token % kNoiseTokens);
  }
  return words;
}

// Computes logit/T + g in float precision: −inf for tokens that the rule excludes, NaN for NaN.
SIMT_KERNEL(kNoiseThreads, 4)
void NoiseKernel(TopKKernelArgs args) {
  BeginKernel();
  const int row = Block().x, x = 4 * (Block().y * kNoiseThreads + ThreadIndex());
  const int vocabulary = args.top_k.vocabulary;
  if (row >= args.top_k.rows_used[0] || !IsCoupled(args.top_k, row) || x >= vocabulary) return;
  const ChoiceRule rule = args.top_k.coupling[row];
  const Survivors survivors = SurvivorsOf(rule, args.SurvivorsAt(row));
  const FourValues logits =
      LoadFour(args.top_k.logits + static_cast<int64_t>(row) * vocabulary, x, vocabulary);
  const NoiseWords words = WordsOf(args.top_k, rule, x);
  Bytes16 noisy;
  SIMT_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float logit = logits.value[i];
    const bool out = logit == logit && !Survives(logit, x + i, survivors);
    noisy.word[i] =
        AsBits(out ? -Infinity() : logit / rule.temperature + GumbelEstimate(words.word[i]));
  }
  StoreBytes16(args.NoisyAt(row) + x, noisy);
}

// Sorts list [count], best entry first. REQUIRES: count is a power of two.
SIMT_DEVICE void Sort(Entry* list, int count) {
  for (int run = 2; run <= count; run *= 2) {
    for (int step = run / 2; step > 0; step /= 2) {
      for (int pair = ThreadIndex(); pair < count / 2; pair += BlockThreads()) {
        const int a = 2 * pair - (pair & (step - 1)), b = a + step;
        const bool best_first = (a & run) == 0;
        const Entry x = list[a], y = list[b];
        if ((x < y) == best_first) {
          list[a] = y;
          list[b] = x;
        }
      }
      SyncBlock();
    }
  }
}

// Statistics of the values of a row.
struct RowStatistics {
  float highest = 0;  // NaN if any value of the row is NaN.
  float log_sum = 0;  // ln Σ exp(value − highest)
};

// Stores the `candidates` best entries of `row` in memory.list, best first.
SIMT_DEVICE RowStatistics Rank(const Tokens& row, int candidates, SelectMemory& memory) {
  RowStatistics statistics;
  statistics.highest = ValueOf(FindStrips(row, memory));
  if (statistics.highest != statistics.highest) return statistics;
  float sum = 0;
  int count = Gather(row, FloorOf(candidates, memory), memory,
                     [&](Entry entry) { sum += Exp(ValueOf(entry) - statistics.highest); });
  if (count > kShortlist) {
    const SelectGoal last = {static_cast<uint64_t>(candidates), true};
    const Entry floor = Select(
        row, last, [](Entry) { return uint32_t{1}; }, memory);
    count = Gather(row, floor, memory, [](Entry) {});
  }
  int padded = 2;
  while (padded < count) padded *= 2;
  for (int i = count + ThreadIndex(); i < padded; i += BlockThreads()) memory.list[i] = kNoEntry;
  // The order of the sum is fixed: over the lanes of each warp, then over the warps.
  sum = WarpSum(sum);
  auto* partial = reinterpret_cast<float*>(memory.partial);
  if (Lane() == 0) partial[Warp()] = sum;
  SyncBlock();
  sum = 0;
  for (int warp = 0; warp < BlockWarps(); ++warp) sum += partial[warp];
  statistics.log_sum = Log(sum);
  Sort(memory.list, padded);
  return statistics;
}

// The values to rank for row `row` of the results.
SIMT_DEVICE const float* ValuesOf(const TopKKernelArgs& args, int row) {
  if (IsCoupled(args.top_k, row)) return args.NoisyAt(row);
  const int from = args.top_k.scored == nullptr ? row : args.top_k.scored[row].row;
  return args.top_k.logits + static_cast<int64_t>(from) * args.top_k.vocabulary;
}

SIMT_KERNEL(kSelectThreads, 1)
void TopKKernel(TopKKernelArgs args) {
  BeginKernel();
  const int row = Block().x, candidates = args.top_k.candidates;
  if (args.top_k.rows_used != nullptr && row >= args.top_k.rows_used[0]) return;
  auto& memory = *reinterpret_cast<SelectMemory*>(DynamicShared());
  const float* values = ValuesOf(args, row);
  const RowStatistics statistics =
      Rank({values, nullptr, args.top_k.vocabulary}, candidates, memory);
  const bool has_nan = statistics.highest != statistics.highest;
  const auto log_prob = [&](float value) {
    return has_nan ? statistics.highest
                   : Min(0.0f, value - statistics.highest - statistics.log_sum);
  };
  if (args.top_k.scored != nullptr && ThreadIndex() == 0) {
    args.top_k.chosen[row] = log_prob(values[args.top_k.scored[row].token]);
  }
  for (int k = ThreadIndex(); k < candidates; k += BlockThreads()) {
    const int64_t to = static_cast<int64_t>(row) * candidates + k;
    const int32_t column = TokenOf(memory.list[k]);
    args.top_k.tokens[to] = has_nan                     ? -1
                            : args.top_k.ids == nullptr ? column
                                                        : args.top_k.ids[column];
    args.top_k.log_probs[to] = log_prob(ValueOf(memory.list[k]));
  }
}

// Values of a row, a multiple of four.
int PaddedValues(int vocabulary) { return (vocabulary + 3) / 4 * 4; }
size_t RowBytes(int vocabulary) {
  return sizeof(TruncationRow) + PaddedValues(vocabulary) * sizeof(float);
}

}  // namespace

void TopK(const TopKArgs& args, Stream& stream) {
  CHECK(args.scored == nullptr || (args.coupling == nullptr && args.ids == nullptr));
  TopKKernelArgs kernel_args = {args};
  kernel_args.scratch = static_cast<char*>(args.scratch);
  kernel_args.stride = RowBytes(args.vocabulary);
  if (args.coupling != nullptr) {
    Truncate({args.rows_used, args.logits, args.coupling, kernel_args.scratch, kernel_args.stride,
              nullptr, args.rows, args.vocabulary},
             stream);
    const int blocks = (PaddedValues(args.vocabulary) / 4 + kNoiseThreads - 1) / kNoiseThreads;
    Launch(stream, NoiseKernel, {{args.rows, blocks}, kNoiseThreads}, kernel_args);
  }
  Launch(stream, TopKKernel, {{args.rows}, kSelectThreads, sizeof(SelectMemory)}, kernel_args);
}

size_t TopKScratchBytes(int rows, int vocabulary) { return rows * RowBytes(vocabulary); }

}  // namespace bastion::kernels::cuda
