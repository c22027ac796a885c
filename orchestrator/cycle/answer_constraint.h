// AnswerConstraint: the constraint of a request, after the output of its answer so far.
//
// Finding the mask of a root takes microseconds for most constraints, and up to a second for an
// ambiguous grammar. Prepare finds it on the cycle's thread if that takes little CPU time.
// Otherwise a MaskWorker does, and the request sits out the cycles until the mask is ready. Such a
// request gets no drafts. If its masks take far too long, it fails. The masks are the same either
// way, so the text is too. Without Prepare, everything happens on the cycle's thread, without
// limits. Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_ANSWER_CONSTRAINT_H_
#define BASTION_ORCHESTRATOR_CYCLE_ANSWER_CONSTRAINT_H_

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "orchestrator/cycle/mask_worker.h"
#include "orchestrator/cycle/token_constraint.h"
#include "orchestrator/planner/grown_tree.h"

namespace bastion {

class AnswerConstraint {
 public:
  // The masks of one request take about this long per cycle.
  static constexpr absl::Duration kCycleTime = absl::Milliseconds(5);
  // A request fails after kMaxSlowMasks masks that took longer than kSlowMask, or after one that
  // took longer than kLongestMask. CPU time.
  static constexpr absl::Duration kSlowMask = absl::Milliseconds(50);
  static constexpr int kMaxSlowMasks = 20;
  static constexpr absl::Duration kLongestMask = absl::Seconds(1);

  // `start` is the constraint before the first token. Null: none.
  explicit AnswerConstraint(std::shared_ptr<const TokenConstraint> start)
      : start_(std::move(start)) {}

  [[nodiscard]] bool exists() const { return start_ != nullptr; }

  // Finds the mask of the root after `output`. False if `worker` is still at it: call again later.
  // `may_compute`: the cycle's thread has time for it. INVALID_ARGUMENT if the constraint is too
  // complex; other errors of the constraint.
  [[nodiscard]] absl::StatusOr<bool> Prepare(absl::Span<const TokenId> output, MaskWorker& worker,
                                             bool may_compute);
  // Applies the constraint to a tree whose root follows `output`. If it fails, drops the nodes: the
  // target might never choose the branch that the constraint cannot follow. An error is one at the
  // root.
  [[nodiscard]] absl::Status Constrain(absl::Span<const TokenId> output,
                                       const absl::flat_hash_set<TokenId>& ends, GrownTree* grown);
  // The tokens that must follow `output` (TokenConstraint::Forced).
  [[nodiscard]] std::vector<TokenId> FindForced(absl::Span<const TokenId> output);
  // Makes the state after `output`, unless a worker will.
  [[nodiscard]] absl::Status EnsureState(absl::Span<const TokenId> output);
  // Appends a token to the output. No effect without a state.
  [[nodiscard]] absl::Status Push(TokenId token);
  // Nothing may follow. False without a state.
  [[nodiscard]] bool complete() const { return state_ != nullptr && state_->complete(); }
  // Forgets the state, which can be large. It is made again when needed.
  void Reset();

  // The masks of the last tree, which had `rows` rows, took this long.
  void RecordMasks(int rows, absl::Duration spent);
  // What the mask of a node is expected to take, from recent trees. 0 without a constraint.
  [[nodiscard]] double mask_seconds() const { return mask_seconds_; }
  // The nodes that a tree may have for their masks; nullopt: any number.
  [[nodiscard]] std::optional<int> max_nodes() const;

 private:
  // The state after `output`.
  [[nodiscard]] absl::StatusOr<TokenConstraint*> State(absl::Span<const TokenId> output);
  [[nodiscard]] absl::Status Apply(absl::Span<const TokenId> output,
                                   const absl::flat_hash_set<TokenId>& ends, GrownTree* grown);
  void StartJob(absl::Span<const TokenId> output, MaskWorker& worker);
  // Takes over what the job has found.
  [[nodiscard]] absl::Status EndJob();
  // Records that the mask of a root took this CPU time.
  void RecordRoot(absl::Duration spent);
  [[nodiscard]] bool is_expensive() const;

  std::shared_ptr<const TokenConstraint> start_;
  std::unique_ptr<TokenConstraint> state_;  // After the output. Null until it is needed.
  std::optional<TokenSet> at_root_;         // What Prepare has found.
  std::shared_ptr<MaskWorker::Job> job_;
  bool is_prepared_ = false;   // Prepare is called before each cycle.
  double mask_seconds_ = 0;    // These two are exponential moving averages.
  double root_seconds_ = 0;    // CPU time.
  absl::Duration root_spent_;  // The mask at the root, until RecordMasks.
  int slow_masks_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_ANSWER_CONSTRAINT_H_
