// AdaptiveRequest: one request of the policies `adaptive` and `default`. It proposes to the planner
// (forest_planner.h) what it could verify:
//
//   - its draft-free nodes: the tree that the transition prior grows alone,
//   - the values that a draft is expected to bring (draft_belief.h),
//   - after a draft, the nodes of the drafted tree, which replace the draft-free ones,
//   - with a drafter that expands nodes, further rounds: the nodes whose children can pay, and the
//     values that these children are expected to have (child_profile.h).
//
// The value of a node is its calibrated acceptance probability (acceptance_calibration.h). Trees
// grow best first, down to the value below which nodes cannot pay.
//
// It learns from every cycle: how calibrated the candidates are, verified or not, and which values
// its drafts brought. After an empty draft it proposes no draft for a while, twice as long after
// each further one. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_POLICY_ADAPTIVE_REQUEST_H_
#define BASTION_ORCHESTRATOR_POLICY_ADAPTIVE_REQUEST_H_

#include <memory>
#include <optional>
#include <vector>

#include "orchestrator/belief/acceptance_calibration.h"
#include "orchestrator/belief/draft_belief.h"
#include "orchestrator/policy/request_policy.h"

namespace bastion {

class AdaptiveRequest final : public RequestPolicy {
 public:
  explicit AdaptiveRequest(const PolicyContext& context) : RequestPolicy(context) {}

  bool planned() const override { return true; }
  TreeProposal ProposeTree() override;

 private:
  // A tree and the candidates that it was grown from.
  struct Pool {
    std::unique_ptr<Candidates> candidates;
    DraftTree tree;
    std::vector<double> values;  // [nodes]
    BudgetReason end;

    [[nodiscard]] ValueHistogram Histogram() const;
  };
  // A request whose draft-free trees are not used grows one in kRetryInterval cycles only.
  static constexpr int kMaxUnused = 4, kRetryInterval = 8;

  void OnBegin(absl::Span<const double> min_values) override;
  std::optional<DraftRound> PlanRound() override;
  void OnDraft() override;
  GrownTree FinishTree(int nodes, BudgetReason reason) override;
  Candidates* uncalibrated() override;
  void Learn(const GrownTree& grown, absl::Span<const TokenId> chosen) override;

  // A round that expands the nodes of the drafted tree whose children can pay; nullopt if there are
  // none.
  [[nodiscard]] std::optional<DraftRound> PlanFurtherRound();
  // Learns what the nodes expanded in this cycle brought.
  void ObserveChildren(ChildProfile* profile) const;
  // K for the nodes of the next round.
  [[nodiscard]] int WantedCandidates();
  // The lowest value with which a node can pay, given that its tokens count weight().
  [[nodiscard]] double LowestValue() const;
  [[nodiscard]] Pool Grow(std::unique_ptr<Candidates> candidates,
                          const AcceptanceCalibration& calibration, const Trust& trust) const;
  void GrowFree();
  // The tree to propose: the drafted one if there is one, else the draft-free one.
  [[nodiscard]] std::optional<Pool>& proposed() { return draft_.has_value() ? draft_ : free_; }

  Trust draft_trust_, free_trust_;
  RequestBelief belief_;
  int cycles_since_draft_ = 0;
  int empty_drafts_ = 0;    // In a row.
  int unused_free_ = 0;     // Cycles since the last one that verified a draft-free node.
  double free_length_ = 1;  // Expected committed length of the last draft-free tree.

  // This cycle.
  absl::Span<const double> min_values_;
  std::optional<Pool> free_, draft_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_ADAPTIVE_REQUEST_H_
