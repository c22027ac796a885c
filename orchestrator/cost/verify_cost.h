// VerifyCost: predicts the verify time of a batch, and learns from every verify call.
//
// A verify call may hold rows of several sequences. The estimator is profiled with one sequence,
// so the cost of the rows that decode is put together from three parts:
//   - The matrix products depend on the number of all rows: V(rows) without context.
//   - Attention depends on each sequence: the root reads the sequence's keys, which costs
//     a = V(1, context) − V(1); every further row costs b = (V(1 + k, context) − V(1 + k) − a) / k.
//     Both are nearly linear in the context, so the mean context of the batch is enough.
//   - Every further sequence takes a constant time, for work beyond its rows: finding pages of
//     keys, laying out rows, choosing tokens. It is measured at startup (batch_profile.h).
// The last two parts multiply small, noisy differences by the number of sequences, so they are less
// certain than the first. An error of a prediction corrects each part by its share and uncertainty.
//
// Prompts cost what their rows add to V, and the attention of trees with as many rows, times a
// factor: rows of prompts need no logits, so they are cheaper than the rows that the estimators
// know. And a forward with prompts often has more rows than were measured. So calls with prompts
// correct this factor only, and teach the estimators nothing.
//
// A verify that follows a draft finds other data in the caches. So there is one estimator for
// cycles with drafts and one for cycles without. Movable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_VERIFY_COST_H_
#define BASTION_ORCHESTRATOR_COST_VERIFY_COST_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "orchestrator/cost/estimator.h"

namespace bastion {

// The prompt tokens of a verify call. Their contexts are counted apart from those of the trees: a
// chunk has hundreds of rows and a tree few, so one mean would price the attention of both wrongly.
struct PromptSize {
  int chunks = 0;
  int rows = 0;     // All chunks together.
  int context = 0;  // Mean tokens before a row, over rows: each row pays for its own.

  // Adds a chunk of `count` rows after `cached` tokens. No effect if it has no rows.
  void AddChunk(int cached, int count) {
    if (count == 0) return;
    const int64_t before =
        int64_t{context} * rows + int64_t{cached} * count + int64_t{count} * (count - 1) / 2;
    ++chunks;
    rows += count;
    context = static_cast<int>(before / rows);
  }
};

// The size of a verify call.
struct VerifySize {
  int sequences = 1;  // That decode.
  int rows = 1;       // All rows: roots, nodes and prompt tokens.
  int context = 0;    // Mean cached tokens of a sequence that decodes.
  PromptSize prompts = {};

  // The rows that decode.
  [[nodiscard]] VerifySize decoding() const {
    return {.sequences = sequences, .rows = rows - prompts.rows, .context = context};
  }
  // True for a call like those of the profile: one tree.
  [[nodiscard]] bool alone() const { return sequences == 1 && prompts.rows == 0; }
};

class VerifyCost {
 public:
  // `plain` predicts calls with one sequence in cycles without drafts, `after_draft` in cycles with
  // drafts. `sequence_seconds` is LatencyProfile::sequence_seconds.
  VerifyCost(std::unique_ptr<LatencyEstimator> plain, std::unique_ptr<LatencyEstimator> after_draft,
             double sequence_seconds)
      : plain_(std::move(plain)),
        after_draft_(std::move(after_draft)),
        sequence_seconds_(sequence_seconds) {}

  // The verify stage of a call (TimingTrace::verify()).
  [[nodiscard]] absl::Duration Predict(const VerifySize& size, bool drafted) const;
  // [max_nodes + 1] Seconds of a call of the rows of `certain` and 0, 1, … further nodes.
  [[nodiscard]] std::vector<double> Curve(const VerifySize& certain, int max_nodes,
                                          bool drafted) const;
  // Learns from a call. Ignores durations that are not positive.
  void Observe(const VerifySize& size, bool drafted, absl::Duration observed);

  // The estimator for one sequence in cycles without drafts.
  [[nodiscard]] const LatencyEstimator& plain() const { return *plain_; }

 private:
  [[nodiscard]] LatencyEstimator& Estimator(bool drafted) const {
    return drafted ? *after_draft_ : *plain_;
  }
  // Seconds of a call without prompts. 0 without sequences.
  [[nodiscard]] double DecodeSeconds(const LatencyEstimator& estimator,
                                     const VerifySize& size) const;
  // What the prompts add to a call, in seconds: sequences and attention, and all of it. Both before
  // the correction.
  [[nodiscard]] double PromptAttention(const LatencyEstimator& estimator,
                                       const PromptSize& prompts) const;
  [[nodiscard]] double PromptSeconds(const LatencyEstimator& estimator,
                                     const VerifySize& size) const;
  // The last two parts, in seconds. REQUIRES: no prompts and sequences >= 1.
  [[nodiscard]] double SequenceSeconds(const LatencyEstimator& estimator,
                                       const VerifySize& size) const;

  std::unique_ptr<LatencyEstimator> plain_;
  std::unique_ptr<LatencyEstimator> after_draft_;
  double sequence_seconds_;
  double sequence_factor_ = 1;  // Corrects the last two parts.
  double prompt_factor_ = 1;    // Corrects the time of prompts.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_VERIFY_COST_H_
