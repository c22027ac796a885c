// Benchmarks Choose, which chooses one token per row, with the vocabulary of Qwen3.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cuda/ops.h"
#include "tests/kernels/cuda/device_benchmark.h"

namespace bastion::kernels::cuda {
namespace {

constexpr int kVocabulary = 151936, kMaxSets = 64;

struct Rule {
  const char* name;
  ChoiceRule rule;
};

absl::Status MeasureRule(DeviceBenchmark& bench, const Rule& rule, int rows) {
  const size_t elements = size_t(rows) * kVocabulary;
  const double bytes = 4.0 * static_cast<double>(elements);
  const int sets = std::min(kMaxSets, bench.OperandCount(bytes));
  std::vector<ChoiceRule> rules(rows, rule.rule);
  for (int row = 0; row < rows; ++row) rules[row].position = row;
  ASSIGN_OR_RETURN(Memory logits, bench.Random(DType::kF32, elements * sets, 3));
  ASSIGN_OR_RETURN(Memory used, bench.Upload(std::vector<int32_t>{rows}));
  ASSIGN_OR_RETURN(Memory all_rules, bench.Upload(rules));
  ASSIGN_OR_RETURN(Memory tokens, bench.Upload(std::vector<int32_t>(rows)));
  ASSIGN_OR_RETURN(Memory scratch, Memory::OnDevice(ChooseScratchBytes(rows), "choices"));
  ChooseArgs args;
  args.rows_used = used.as<int32_t>();
  args.rules = all_rules.as<ChoiceRule>();
  args.tokens = tokens.as<int32_t>();
  args.scratch = scratch.as<void>();
  args.rows = rows;
  args.vocabulary = kVocabulary;
  return bench.Measure({"choose", rule.name, rows, bytes, 0}, sets, [&](int call) {
    args.logits = logits.as<float>() + elements * call;
    Choose(args, bench.stream());
  });
}

absl::Status MeasureChoose(DeviceBenchmark& bench) {
  // temperature, seed, position, top-k, top-p, min-p
  constexpr Rule kRules[] = {{"greedy", {0, 1, 0, 0, 1, 0}},
                             {"temperature 0.7", {0.7f, 1, 0, 0, 1, 0}},
                             {"temperature 0.6, top-k 20, top-p 0.95", {0.6f, 1, 0, 20, 0.95f, 0}},
                             {"temperature 0.6, top-p 0.95", {0.6f, 1, 0, 0, 0.95f, 0}}};
  for (const Rule& rule : kRules) {
    for (const int rows : {1, 16, 64}) RETURN_IF_ERROR(MeasureRule(bench, rule, rows));
  }
  return absl::OkStatus();
}

const bool registered = RegisterPart({5, "choose", MeasureChoose});

}  // namespace
}  // namespace bastion::kernels::cuda
