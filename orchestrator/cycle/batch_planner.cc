#include "orchestrator/cycle/batch_planner.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "orchestrator/cycle/prompt_rows.h"

namespace bastion {
namespace {

// The rows and drafts of sequences that are certain before their trees are planned.
struct CertainRows {
  int sequences = 0;
  int rows = 0;
  int drafts = 0;
  int64_t cached = 0;  // Committed tokens.

  void Add(const DecodeSequence& sequence) {
    ++sequences;
    ++rows;
    cached += sequence.committed();
    if (sequence.policy().planned()) return;
    // The policy states the size of its trees. The next one is about as large as the last one.
    if (!sequence.cycles().empty()) rows += sequence.cycles().back().nodes;
    if (sequence.policy().policy().wants_draft()) ++drafts;
  }
};

// The order in which sequences get turns: those with a target, then by credit.
std::vector<size_t> DecodeOrder(absl::Span<const BatchCandidate> decoding) {
  const auto rank = [&](size_t i) {
    const auto& [sequence, history] = decoding[i];
    return std::pair(sequence->latency_target().has_value(), history->credit);
  };
  std::vector<size_t> order(decoding.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return rank(a) > rank(b); });
  return order;
}

// Settles `turns` turns that went to the first ones of `others`. Every sequence is due a share of
// them in proportion to its weight, but at most one. If all of them decode, no credit changes.
void SettleCredits(std::vector<BatchCandidate> others, int turns) {
  for (int n = 0; n < turns; ++n) others[n].history->credit -= 1;
  const auto weight = [](const BatchCandidate& one) { return one.sequence->weight(); };
  std::stable_sort(
      others.begin(), others.end(),
      [&](const BatchCandidate& a, const BatchCandidate& b) { return weight(a) > weight(b); });
  double weights = 0;  // The sum over the sequences from here on, which share `left` turns.
  for (const BatchCandidate& one : others) weights += weight(one);
  double left = turns;
  for (const BatchCandidate& one : others) {
    const double due = std::min(1.0, left * weight(one) / weights);
    one.history->credit += due;
    left -= due;
    weights -= weight(one);
  }
}

// The largest number in [low, high] that fits, if all smaller ones fit too. `low` if none fits.
template <typename Predicate>
int LargestThatFits(int low, int high, Predicate fits) {
  while (low < high) {
    const int middle = high - (high - low) / 2;
    if (fits(middle)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

// The forwards that are possible: the first sequences of the order, and rows for the prompts.
class Forwards {
 public:
  Forwards(absl::Span<const BatchCandidate> decoding, absl::Span<const size_t> order,
           absl::Span<const BatchCandidate> prompts, const CostModel& costs)
      : prompts_(prompts), costs_(costs), certain_(1) {
    for (const size_t i : order) {
      const DecodeSequence& sequence = *decoding[i].sequence;
      certain_.push_back(certain_.back());
      certain_.back().Add(sequence);
      limit_ = std::min(limit_, sequence.longest_cycle());
      if (sequence.latency_target().has_value()) ++with_target_;
    }
    for (const auto& [sequence, history] : prompts) {
      demands_.push_back({sequence->prompt_left(), history->overtaken});
      prompt_left_ += demands_.back().left;
    }
    if (limited()) limit_ = std::max(limit_, kBatchFloor * Predict(with_target_, 0));
  }

  // A sequence has a target.
  [[nodiscard]] bool limited() const { return with_target_ > 0; }
  [[nodiscard]] int with_target() const { return with_target_; }
  [[nodiscard]] int64_t prompt_left() const { return prompt_left_; }
  [[nodiscard]] std::vector<int> ShareRows(int rows) const {
    return SharePromptRows(demands_, rows);
  }
  // True if the first `sequences` sequences and `prompt_rows` prompt rows keep the limit.
  [[nodiscard]] bool Fit(int sequences, int prompt_rows) const {
    return Predict(sequences, prompt_rows) <= limit_;
  }

 private:
  [[nodiscard]] absl::Duration Predict(int sequences, int prompt_rows) const {
    PromptSize prompts;
    const std::vector<int> rows = ShareRows(prompt_rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      prompts.AddChunk(prompts_[i].sequence->committed(), rows[i]);
    }
    const CertainRows& certain = certain_[sequences];
    const VerifySize size = {.sequences = certain.sequences,
                             .rows = certain.rows + prompts.rows,
                             .context = static_cast<int>(certain.cached / certain.sequences),
                             .prompts = prompts};
    return costs_.PredictCycle(size, certain.drafts);
  }

  const absl::Span<const BatchCandidate> prompts_;
  const CostModel& costs_;
  std::vector<CertainRows> certain_;  // certain_[n]: of the first n sequences.
  std::vector<PromptDemand> demands_;
  int64_t prompt_left_ = 0;
  int with_target_ = 0;
  absl::Duration limit_ = absl::InfiniteDuration();
};

}  // namespace

BatchPlan PlanBatch(absl::Span<const BatchCandidate> decoding,
                    absl::Span<const BatchCandidate> prompts, const BatchLimits& limits,
                    const CostModel& costs) {
  const std::vector<size_t> order = DecodeOrder(decoding);
  const Forwards forwards(decoding, order, prompts, costs);
  auto count = static_cast<int>(decoding.size());
  auto rows = static_cast<int>(std::min<int64_t>(
      forwards.prompt_left(), std::min(limits.prompt_rows, limits.max_rows - count)));
  if (forwards.limited()) {
    const int first = forwards.with_target();
    const int beside_first =
        LargestThatFits(0, rows, [&](int more) { return forwards.Fit(first, more); });
    const int least_rows = std::min(rows, 1);
    const int reserved = std::max(least_rows, beside_first / 2);
    count = LargestThatFits(std::min(first + 1, count), count,
                            [&](int more) { return forwards.Fit(more, reserved); });
    rows = LargestThatFits(least_rows, rows, [&](int more) { return forwards.Fit(count, more); });
  }
  BatchPlan plan;
  plan.decoding.assign(order.begin(), order.begin() + count);
  std::sort(plan.decoding.begin(), plan.decoding.end());
  if (plan.decoding.size() < order.size()) {
    std::vector<BatchCandidate> others;
    for (size_t n = forwards.with_target(); n < order.size(); ++n) {
      others.push_back(decoding[order[n]]);
    }
    SettleCredits(std::move(others), count - forwards.with_target());
  }
  const std::vector<int> shares = forwards.ShareRows(rows);
  for (size_t i = 0; i < shares.size(); ++i) {
    prompts[i].history->overtaken += rows - shares[i];
    if (shares[i] > 0) plan.prompts.push_back({i, shares[i]});
  }
  plan.waiting = static_cast<int>(prompts.size() - plan.prompts.size());
  return plan;
}

}  // namespace bastion
