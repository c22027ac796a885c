// DraftChoice: decides whether a cycle waits for a draft, or verifies the draft-free tree (the tree
// that the prior grows alone).
//
// The draft-free tree and its expected committed length f are known before the draft. The tokens
// and the time of a drafted cycle are each estimated by a line over f, fitted to the cycles that
// did draft. For example, if the prior predicts a long copy, a draft adds little. After the
// draft-free tree has won kTrialInterval times in a row, one cycle drafts anyway, so that the lines
// stay up to date. Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_DRAFT_CHOICE_H_
#define BASTION_ORCHESTRATOR_POLICY_DRAFT_CHOICE_H_

#include <initializer_list>

namespace bastion {

// The tokens that a cycle commits and the seconds that it takes, observed or expected.
struct CycleYield {
  double tokens = 1;
  double seconds = 0;

  // The tokens beyond those that would be decoded in the same time at `tokens_per_second`.
  [[nodiscard]] double NetTokens(double tokens_per_second) const {
    return tokens - tokens_per_second * seconds;
  }
};

// A least-squares line y(x) over about the last kMemory points. With few points the slope is damped
// toward 0.
class FadingLine {
 public:
  static constexpr double kMemory = 128;

  void Observe(double x, double y) {
    for (double* sum : {&points_, &x_, &y_, &xx_, &xy_}) *sum *= 1 - 1 / kMemory;
    points_ += 1;
    x_ += x;
    y_ += y;
    xx_ += x * x;
    xy_ += x * y;
  }

  [[nodiscard]] double points() const { return points_; }
  // REQUIRES: points() > 0.
  [[nodiscard]] double At(double x) const {
    const double mean_x = x_ / points_, mean_y = y_ / points_;
    const double slope = (xy_ - x_ * mean_y) / (xx_ - x_ * mean_x + kSlopeDamping);
    return mean_y + slope * (x - mean_x);
  }

 private:
  static constexpr double kSlopeDamping = 4;
  double points_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

// Avoids growing draft-free trees that will not be used: after kMaxLosses consecutive cycles that
// drafted, only every kRetryInterval-th cycle grows one. One object per request, because some texts
// repeat themselves and others do not.
class DraftFreeBackoff {
 public:
  static constexpr int kMaxLosses = 4;
  static constexpr int kRetryInterval = 8;

  // True if this cycle should grow a draft-free tree.
  [[nodiscard]] bool ShouldTry() const {
    return losses_ < kMaxLosses || losses_ % kRetryInterval == 0;
  }
  // Records that this cycle drafted, whether or not it also grew a draft-free tree.
  void RecordLoss() { ++losses_; }
  // Records that this cycle used its draft-free tree.
  void RecordWin() { losses_ = 0; }

 private:
  int losses_ = 0;
};

class DraftChoice {
 public:
  static constexpr double kMinCycles = 16;  // Drafted cycles before the estimate is used.
  static constexpr int kTrialInterval = 64;
  // Net tokens by which the draft-free tree must win, because the lines are estimates.
  static constexpr double kMargin = 0.1;

  // While this is false, every cycle should draft and be observed.
  [[nodiscard]] bool has_enough_cycles() const { return tokens_.points() >= kMinCycles; }

  // Records that a draft was requested, whether or not it arrived.
  void ObserveDraftRequest() { since_drafted_ = 0; }
  // Records a cycle that drafted. `free_tokens` is the expected length of its draft-free tree.
  void ObserveDrafted(double free_tokens, const CycleYield& drafted) {
    ObserveDraftRequest();
    tokens_.Observe(free_tokens, drafted.tokens);
    seconds_.Observe(free_tokens, drafted.seconds);
  }

  // Records that a cycle used its draft-free tree instead of a draft.
  void ObserveDraftFree() { ++since_drafted_; }

  // True if the draft-free tree yields more net tokens than a drafted cycle is expected to.
  [[nodiscard]] bool DraftFreeWins(const CycleYield& draft_free, double tokens_per_second) const {
    if (!has_enough_cycles() || since_drafted_ >= kTrialInterval) return false;
    const CycleYield drafted = {tokens_.At(draft_free.tokens), seconds_.At(draft_free.tokens)};
    return draft_free.NetTokens(tokens_per_second) > drafted.NetTokens(tokens_per_second) + kMargin;
  }

 private:
  FadingLine tokens_, seconds_;  // Yield of drafted cycles, over the draft-free expected length.
  int since_drafted_ = 0;        // Cycles since the last draft request.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_DRAFT_CHOICE_H_
