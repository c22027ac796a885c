// DraftBelief: the node values that a draft is expected to bring, learned from recent drafts.
//
// The planner decides whether to draft before it sees the draft. It knows f, the expected committed
// length of the request's draft-free tree: where the prior predicts a long copy, a draft adds less
// and looks different. So drafts are grouped by f, and each group has a fading mean of the value
// histograms of its drafts, shrunk toward the mean of all groups by kPseudoDrafts. That mean starts
// with a few optimistic drafts, so that the first real ones take place.
//
// Requests share a DraftBelief. It learns from the first drafts of each request only, so that it
// describes a new request: requests with useless drafts live longer and would outweigh the others.
// On top of it, RequestBelief learns how much more or less the drafts of one request bring.
// Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_BELIEF_DRAFT_BELIEF_H_
#define BASTION_ORCHESTRATOR_BELIEF_DRAFT_BELIEF_H_

#include <array>

#include "orchestrator/cost/fading_ratio.h"
#include "orchestrator/planner/value_histogram.h"

namespace bastion {

// A fading mean of histograms.
class MeanHistogram {
 public:
  // The sum fades so that it remembers about `memory` histograms.
  void Observe(const ValueHistogram& values, double memory);

  // The number of histograms in the mean, at most `memory`.
  [[nodiscard]] double weight() const { return weight_; }
  // The mean, with `prior` as if it had been observed `weight` times more. The sum of all weights
  // must be positive.
  [[nodiscard]] ValueHistogram Mean(const ValueHistogram& prior = {}, double weight = 0) const;

 private:
  ValueHistogram sum_;
  double weight_ = 0;
};

class DraftBelief {
 public:
  static constexpr double kMemory = 32;  // Drafts per group.
  static constexpr double kPseudoDrafts = 4;
  static constexpr double kOptimisticDrafts = 2;

  DraftBelief();

  // Records the values of all nodes that a drafted tree offered. `free_length` is f >= 1.
  void Observe(double free_length, const ValueHistogram& values);
  // The expected values of the nodes after a draft.
  [[nodiscard]] ValueHistogram Expect(double free_length) const;
  // True if there are so few drafts that those of any request should be observed.
  [[nodiscard]] bool needs_drafts(double free_length) const {
    return groups_[GroupOf(free_length)].weight() < kMemory / 2;
  }

 private:
  static constexpr std::array<double, 4> kGroupEnds = {1.25, 1.75, 2.5, 4.0};
  [[nodiscard]] static size_t GroupOf(double free_length);

  std::array<MeanHistogram, kGroupEnds.size() + 1> groups_;
  MeanHistogram all_;
};

class RequestBelief {
 public:
  static constexpr double kMemory = 16;       // Drafts of this request.
  static constexpr double kIdleMemory = 48;   // Cycles without a draft.
  static constexpr double kPseudoDrafts = 4;  // Shrink the ratio toward 1.
  static constexpr int kSharedDrafts = 12;    // The first drafts, which teach the shared belief.

  // Records the values of a draft, here and in `shared` if it is one of the first.
  void Observe(double free_length, const ValueHistogram& values, DraftBelief* shared);
  // Records a cycle without a draft. Texts change, so old drafts count less and less.
  void ObserveNoDraft();
  [[nodiscard]] ValueHistogram Expect(const DraftBelief& shared, double free_length) const;

 private:
  int drafts_ = 0;
  // Over this request's drafts: their values over those that the shared belief expected.
  FadingRatio values_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_BELIEF_DRAFT_BELIEF_H_
