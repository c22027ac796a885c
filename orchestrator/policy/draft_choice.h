// DraftChoice: is a draft worth waiting for, when there is a tree without one?
//
// Before the draft the tree that the prior alone would grow is known, and so is its expected
// length f. What a drafted cycle brings and costs is taken to be a line over f, fitted to the
// cycles that did draft: a prior that is sure of a long copy leaves the drafter little to add.
// Every kTrialEvery-th time that the draft-free tree wins, a draft is asked for all the same, so
// that the line is never out of date. Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_DRAFT_CHOICE_H_
#define BASTION_ORCHESTRATOR_POLICY_DRAFT_CHOICE_H_

#include <initializer_list>

namespace bastion {

// What a cycle brings, or is expected to bring.
struct CycleYield {
  double tokens = 1;
  double seconds = 0;

  [[nodiscard]] double Worth(double tokens_per_second) const {
    return tokens - tokens_per_second * seconds;
  }
};

// y over x by least squares over about kMemory points, with a slope drawn towards 0 while they are
// few.
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
    const double slope = (xy_ - x_ * mean_y) / (xx_ - x_ * mean_x + kPriorSpread);
    return mean_y + slope * (x - mean_x);
  }

 private:
  static constexpr double kPriorSpread = 4;
  double points_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

// Whether to grow the draft-free tree at all, only to see it lose: after kPatience cycles in which
// it lost, every kSeldom-th cycle looks again. One per request: some texts repeat, others do not.
class DraftFreeLookout {
 public:
  static constexpr int kPatience = 4;
  static constexpr int kSeldom = 8;

  [[nodiscard]] bool Looks() const { return lost_ < kPatience || lost_ % kSeldom == 0; }
  // A cycle that drafted, looked or not; and one whose draft-free tree was better.
  void Lost() { ++lost_; }
  void Won() { lost_ = 0; }

 private:
  int lost_ = 0;
};

class DraftChoice {
 public:
  static constexpr double kEnough = 16;  // Drafted cycles to judge by.
  static constexpr int kTrialEvery = 64;
  // Tokens by which the draft-free tree must be better: the line is an estimate.
  static constexpr double kMargin = 0.1;

  // Before that every cycle drafts, and should be observed.
  [[nodiscard]] bool judges() const { return tokens_.points() >= kEnough; }

  // A draft was asked for, whatever came of it.
  void ObserveAsked() { since_drafted_ = 0; }
  // A cycle that drafted although the prior expected `free_tokens`.
  void ObserveDrafted(double free_tokens, const CycleYield& drafted) {
    ObserveAsked();
    tokens_.Observe(free_tokens, drafted.tokens);
    seconds_.Observe(free_tokens, drafted.seconds);
  }

  // A cycle that did not, for that reason.
  void ObserveDraftFree() { ++since_drafted_; }

  // True when the draft-free tree is worth more, a second being worth `tokens_per_second`.
  [[nodiscard]] bool DraftFreeWins(const CycleYield& draft_free, double tokens_per_second) const {
    if (!judges() || since_drafted_ >= kTrialEvery) return false;
    const CycleYield drafted = {tokens_.At(draft_free.tokens), seconds_.At(draft_free.tokens)};
    return draft_free.Worth(tokens_per_second) > drafted.Worth(tokens_per_second) + kMargin;
  }

 private:
  FadingLine tokens_, seconds_;
  int since_drafted_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_DRAFT_CHOICE_H_
