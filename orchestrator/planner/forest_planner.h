// ForestPlanner: shares the time of a cycle among the requests of a batch. It decides for whom to
// draft, and how many nodes of each tree to verify.
//
// A verify forward costs T(n) seconds for n nodes of all trees together, a draft for m requests
// D(m) (batch_cost.h). A node is worth the probability that the target accepts it. The planner
// maximizes tokens per second,
//
//   (c + E) / (T(n) + D(m)),   c: live requests, one token each;  E: the sum of the nodes' values,
//
// by Dinkelbach's method: for a price of time λ, in tokens per second, it maximizes
// c + E − λ·(T(n) + D(m)). The best price is the long-run rate of the maximum itself. Cycles
// differ, and time saved in a hard cycle can be spent in an easier one, so λ is the rate of plain
// decoding, c / T(0), times the speedup over about the last kMemory cycles. It is never below the
// rate of plain decoding, and follows the load at once. Before the first cycle, λ is the best ratio
// of the cycle itself.
//
// A request with a constraint needs a mask for each of its nodes (token_constraint.h). The time of
// these masks is added to T(n).
//
// Prompt tokens in the forward take the same time whatever is planned. They count in T(n), because
// nodes cost less or more beside them, but not in the price: a longer cycle does not make time less
// precious. But it delays the requests whose prompts wait as much as those that decode, so λ is the
// rate at which all of them would decode (BatchCost::waiting_factor).
//
//   1. ChooseDrafts compares drafting for none, one, … all requests. It uses the expected values of
//      the nodes with and without a draft, as histograms. Requests that gain most come first. The
//      time that the drafter needs to process a prompt is divided by the number of drafts that the
//      request can still make before its end. Requests that just pay for themselves can keep a call
//      alive that does not pay for all, as long as others have paid for their prompts. So new
//      requests join only if the drafts clearly pay when every request pays for its prompt.
//   2. If the drafter expands nodes, ChooseRounds decides for whom it does so once more, as long as
//      the nodes that a round is expected to bring are worth its time.
//   3. ChooseNodes merges the nodes of all trees by value and compares every total n. On a
//      staircase of costs, stopping at the first node that does not pay would stop at a local
//      optimum. A node must be worth kMargin times its price, because values are estimates.
//
// Planning takes time itself. Where it does not pay, and to measure T(0), the batch rests
// (rest_schedule.h): it decodes plainly for some cycles, which the planner does not plan.
//
// Requests that the plan would never draft for are tried now and then: kExplorationShare of all
// time goes into an account. When it can pay for what one more draft is expected to lose, the
// request that waited longest for its price gets it, then the next if the account can pay again: on
// a GPU, further drafts in one call are nearly free. So drafts that nearly pay are tried more
// often. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PLANNER_FOREST_PLANNER_H_
#define BASTION_ORCHESTRATOR_PLANNER_FOREST_PLANNER_H_

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "orchestrator/cost/batch_cost.h"
#include "orchestrator/cost/draft_cost.h"
#include "orchestrator/cost/fading_ratio.h"
#include "orchestrator/planner/grown_tree.h"
#include "orchestrator/planner/rest_schedule.h"
#include "orchestrator/planner/value_histogram.h"

namespace bastion {

// What drafting would bring to one request.
struct DraftProposal {
  ValueHistogram without;  // Values of its nodes if it does not draft.
  ValueHistogram with;     // Expected values of its nodes if it does.
  int cycles_since_draft = 0;
  // The request has not drafted yet, so the drafter has not seen its prompt.
  bool first = false;
  // What the draft takes beyond D(m), because the drafter has not seen the prompt yet. The
  // request's later drafts do not take this time again.
  double catch_up_seconds = 0;
  int tokens_left = 0;  // The request may still emit at most this many tokens.
  // What the drafter needs for the prompt, whether it has seen it or not, and the longest answer.
  double prompt_seconds = 0;
  int answer_tokens = 0;
  double weight = 1;  // How much its tokens count against those of other requests.
  // What the further rounds after the draft are expected to take. Their nodes count in `with`.
  double later_seconds = 0;
  double mask_seconds = 0;  // What the mask of a node takes.
};

// What a further round would bring to one request.
struct RoundProposal {
  ValueHistogram without;  // Values of the nodes that it has.
  ValueHistogram with;     // Expected values of its nodes after the round.
  int paths = 0;           // Nodes that the drafter would expand.
  double weight = 1;
  double mask_seconds = 0;  // What the mask of a node takes.
};

// The tree that one request proposes to verify. Every prefix of it is the best tree of that size.
struct TreeProposal {
  absl::Span<const double> values = {};  // [nodes] Non-increasing acceptance probabilities.
  double weight = 1;
  // Why the tree has no further nodes.
  BudgetReason end = BudgetReason::kExhausted;
  // Nodes that are verified in any case. They are not in `values`.
  int certain = 0;
  double mask_seconds = 0;  // What the mask of a node takes.
};

struct DraftPlan {
  std::vector<bool> drafts;   // By proposal.
  std::vector<int> explored;  // The proposals that draft only to explore.
};

struct NodePlan {
  std::vector<int> nodes;  // By proposal: keep the first `nodes` nodes.
  std::vector<BudgetReason> reasons;
};

class ForestPlanner {
 public:
  static constexpr double kMargin = 1.03;
  static constexpr double kExplorationShare = 0.003;
  static constexpr double kMemory = 32;

  // Why the next cycle of a batch of `sequences` rests: no planned request may draft or have nodes.
  // nullopt if it does not rest.
  [[nodiscard]] std::optional<BudgetReason> RestReason(int sequences) const {
    return rests_.Reason(sequences);
  }
  // Records a cycle that rested, in place of the calls below.
  void EndRest(int sequences, const EndedCycle& cycle);

  // Begins a cycle. `live` is the summed weight of all requests of the batch.
  void Begin(BatchCost cost, double live);

  // From the next cycle on, a second costs this many tokens. For experiments: no price can be right
  // for all cycles, but the best constant one is a measure for the planner's own.
  void FixPrice(double tokens_per_second) { fixed_price_ = tokens_per_second; }

  // [at least 1] The value below which a node cannot pay in this cycle: element i is for the node
  // after the first i nodes of a tree. The last element is also for all later nodes. Valid after
  // Begin.
  [[nodiscard]] absl::Span<const double> min_values() const { return min_values_; }

  [[nodiscard]] DraftPlan ChooseDrafts(absl::Span<const DraftProposal> proposals);

  // By proposal: true if the request takes the round. `costs` are those of a further round, by
  // nodes.
  [[nodiscard]] std::vector<bool> ChooseRounds(absl::Span<const RoundProposal> proposals,
                                               const DraftCost& costs);

  // `drafted` is the number of proposals for which the plan drafted.
  [[nodiscard]] NodePlan ChooseNodes(absl::Span<const TreeProposal> proposals, int drafted);

  // After ChooseNodes: how many nodes of one more proposal the plan takes, the first ones.
  [[nodiscard]] int ChooseFurtherNodes(const TreeProposal& proposal);

  // Records a cycle: its duration in seconds, and the weighted tokens that it committed. The
  // account holds at most the price of one draft for the whole batch.
  void EndCycle(double seconds, double tokens);

 private:
  // The rate of plain decoding, without the prompts of this cycle.
  [[nodiscard]] double PlainRate() const {
    return live_ / (cost_.verify[0] - cost_.prompt_seconds);
  }
  // The speedup over plain decoding, as far as it is known.
  [[nodiscard]] double Speedup() const {
    return speedup_.bottom > 0 ? std::max(1.0, speedup_.value()) : 1.0;
  }
  // Adds the share of a cycle's time to the account.
  void SaveForExploration(double seconds) {
    exploration_ = std::min(exploration_ + kExplorationShare * seconds, batch_draft_seconds_);
  }
  // True if past cycles tell the price.
  [[nodiscard]] bool knows_price() const { return speedup_.bottom > 0 || fixed_price_ > 0; }
  struct BestPlan {
    int drafts = 0;
    double surplus = 0;  // Tokens that it gains over a plain cycle, at the price.
  };
  // The plan with the largest surplus. Drafts go to the first requests of `order`. `shares`, by
  // proposal: the seconds beyond D(m) that count for a draft.
  [[nodiscard]] BestPlan BestDrafts(absl::Span<const DraftProposal> proposals,
                                    absl::Span<const int> order, absl::Span<const double> shares);
  // True if some drafts would clearly pay even if every request paid for its prompt, not only the
  // new ones.
  [[nodiscard]] bool PaysInTheLongRun(absl::Span<const DraftProposal> proposals,
                                      absl::Span<const int> order);
  // The value below which no node of a request can pay, before its weight.
  [[nodiscard]] double LowestPrice(double mask_seconds) const {
    return min_values_[0] + price_ * mask_seconds;
  }
  // Learns how often a request that has drafted before would pay for its part of a call for all.
  void ObserveDraftRate(absl::Span<const DraftProposal> proposals, absl::Span<const double> gains);
  // The drafts that the request is expected to make while it emits `tokens` tokens. At least 1.
  [[nodiscard]] double ExpectedDrafts(const DraftProposal& proposal, int tokens) const;
  // By proposal: the seconds beyond D(m) that one draft must pay for.
  [[nodiscard]] std::vector<double> SharesOf(absl::Span<const DraftProposal> proposals) const;
  // Pays for more drafts from the account if it can, beyond the `drafted` ones of `plan`.
  void Explore(absl::Span<const DraftProposal> proposals, absl::Span<const double> gains,
               int drafted, DraftPlan* plan);

  BatchCost cost_ = {{0}, {0}, {0}};
  double live_ = 0;
  double price_ = 0;
  double fixed_price_ = 0;  // 0: none.
  std::vector<double> min_values_ = {1};
  double planned_seconds_ = 0;      // T(n) + D(m) of this cycle, with the prompts of first drafts.
  size_t planned_nodes_ = 0;        // n of this cycle.
  int planned_drafts_ = 0;          // m of this cycle.
  double catch_up_seconds_ = 0;     // The part of the prompts of first drafts.
  double batch_draft_seconds_ = 0;  // The price of a draft for the whole batch.
  double exploration_ = 0;          // Seconds.
  bool explored_ = false;           // This cycle explored a draft.
  RestSchedule rests_;
  // Over past cycles: their tokens over those of plain decoding in the same time.
  FadingRatio speedup_;
  // Over past cycles, of the requests that have drafted before: those that a draft would pay for,
  // over all. Without any, requests are expected to draft in every cycle.
  FadingRatio draft_rate_;
  // Over past cycles: the values of the planned nodes over those of all offered nodes.
  FadingRatio verified_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PLANNER_FOREST_PLANNER_H_
