#include "orchestrator/belief/draft_belief.h"

#include <algorithm>

namespace bastion {
namespace {

constexpr double kLeastSum = 1e-3;  // Avoids 0 / 0.

// A drafter whose top candidates are right three times out of four.
ValueHistogram OptimisticValues() {
  constexpr int kDepth = 8;
  constexpr double kRight = 0.75;
  ValueHistogram values;
  double value = 1;
  for (int depth = 0; depth < kDepth; ++depth) values.Add(value *= kRight);
  return values;
}

}  // namespace

void MeanHistogram::Observe(const ValueHistogram& values, double memory) {
  const double kept = 1 - 1 / memory;
  sum_.Scale(kept);
  sum_.Add(values, 1);
  weight_ = kept * weight_ + 1;
}

ValueHistogram MeanHistogram::Mean(const ValueHistogram& prior, double weight) const {
  ValueHistogram mean = sum_;
  mean.Add(prior, weight);
  mean.Scale(1 / (weight_ + weight));
  return mean;
}

size_t DraftBelief::GroupOf(double free_length) {
  return std::upper_bound(kGroupEnds.begin(), kGroupEnds.end(), free_length) - kGroupEnds.begin();
}

void DraftBelief::Observe(double free_length, const ValueHistogram& values) {
  groups_[GroupOf(free_length)].Observe(values, kMemory);
  all_.Observe(values, kMemory);
}

DraftBelief::DraftBelief() {
  for (int i = 0; i < kOptimisticDrafts; ++i) all_.Observe(OptimisticValues(), kMemory);
}

ValueHistogram DraftBelief::Expect(double free_length) const {
  return groups_[GroupOf(free_length)].Mean(all_.Mean(), kPseudoDrafts);
}

void RequestBelief::Observe(double free_length, const ValueHistogram& values, DraftBelief* shared) {
  values_.Add(values.Sum(), shared->Expect(free_length).Sum(), kMemory);
  if (drafts_++ < kSharedDrafts || shared->needs_drafts(free_length)) {
    shared->Observe(free_length, values);
  }
}

void RequestBelief::ObserveNoDraft() { values_.Add(0, 0, kIdleMemory); }

ValueHistogram RequestBelief::Expect(const DraftBelief& shared, double free_length) const {
  ValueHistogram expected = shared.Expect(free_length);
  expected.Scale(values_.Shrunk(kPseudoDrafts * std::max(expected.Sum(), kLeastSum)));
  return expected;
}

}  // namespace bastion
