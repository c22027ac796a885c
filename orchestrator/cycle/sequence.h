// DecodeSequence: the orchestrator's state of one request in the decode cycle: the prompt, the
// output so far, the number of tokens committed at the verifier, and its policy.
//
// The last token of the prompt is the first root. Prefill commits the tokens before it, so the
// first cycle already speculates. A sequence that is preempted starts over with the prompt and its
// output so far, and continues with the same text. Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_SEQUENCE_H_
#define BASTION_ORCHESTRATOR_CYCLE_SEQUENCE_H_

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/stages/stage_data.h"
#include "orchestrator/cost/stage_times.h"
#include "orchestrator/cycle/answer_constraint.h"
#include "orchestrator/cycle/mask_worker.h"
#include "orchestrator/cycle/shared_prompt.h"
#include "orchestrator/cycle/token_constraint.h"
#include "orchestrator/cycle/verified_tree.h"
#include "orchestrator/policy/request_policy.h"

namespace bastion {

// Which records of cycles have their draft trees.
enum class KeptTrees {
  kNone,
  kLast,  // That of the last cycle. The others have the totals of theirs.
  kAll,
};

struct DecodeRequest {
  SequenceId id;
  SharedPrompt prompt;  // At least one token.
  SamplingParams sampling;
  int max_tokens = 0;  // At least one.
  absl::flat_hash_set<TokenId> stop_tokens;
  std::optional<int> max_nodes;  // The request's limit for the nodes of a tree. nullopt: no limit.
  NodeCap node_cap;              // The server's limit for the nodes of a tree.
  double weight = 1;  // Service and nodes that this request gets, relative to other requests.
  std::string cache_salt = {};  // PrefixItem::salt
  // The time between two outputs that should not be exceeded (batch_planner.h). nullopt: no target.
  std::optional<absl::Duration> latency_target;
  KeptTrees kept_trees = KeptTrees::kNone;
  // The constraint before the first token of the answer. Null: none. REQUIRES: `stop_tokens` has
  // the tokens with which the constraint ends answers, and TargetInfo::takes_masks.
  std::shared_ptr<const TokenConstraint> constraint = nullptr;
};

enum class FinishReason {
  kNone,
  kStopToken,
  kStopString,
  kLength,
  kComplete,  // The constraint allows no further token.
};

// "length" or "stop": the names that metrics and traces use. REQUIRES: not kNone.
[[nodiscard]] constexpr const char* FinishReasonName(FinishReason reason) {
  return reason == FinishReason::kLength ? "length" : "stop";
}

// One cycle of one sequence.
struct CycleRecord {
  int nodes = 0;
  int committed_length = 0;  // Tokens that this cycle added to the output, up to the first stop.
  int rows = 0;              // Rows of the whole verify call, over all sequences.
  double experts = 0;        // TimingTrace::experts of the call.
  double share = 1;          // This sequence's rows / all rows, of the call as it was sent.
  bool drafted = false;      // A draft was requested.
  BudgetReason reason = BudgetReason::kPolicy;
  int accepted = 0;                 // Accepted nodes: one at each depth from 1 to `accepted`.
  int context = 0;                  // Cached tokens before the cycle.
  double expected_length = 1;       // Â of the tree (DraftTree::ExpectedCommittedLength).
  absl::Duration predicted_verify;  // Prediction of stages.verify, for the whole call.
  StageTimes stages;
  std::shared_ptr<const VerifiedTree> tree = nullptr;  // If it is kept.
  std::array<SourceTotals, kNodeSources> totals = {};  // With KeptTrees::kLast.
};

class DecodeSequence {
 public:
  // REQUIRES: `request` has a prompt of at least one token and max_tokens >= 1.
  DecodeSequence(DecodeRequest request, std::unique_ptr<RequestPolicy> policy);

  // ---- prefill ----
  // The tokens to commit, as far as the verifier has them. Called when nothing is committed.
  [[nodiscard]] PrefixItem Prefix() const;
  // Records that the verifier had the first `tokens` of them.
  void RecordReuse(int tokens);
  // Prompt tokens that it had when this sequence began. Does not change after a preemption.
  [[nodiscard]] int reused_prompt_tokens() const { return reused_.value_or(0); }
  // Tokens still to commit before this sequence can decode.
  [[nodiscard]] int prompt_left() const;
  // The next tokens to commit, at most `max_tokens`. Empty if none are left.
  [[nodiscard]] PrefillItem NextPrefill(int max_tokens) const;
  // Records that the verifier has committed `tokens` of them, and this sequence's share of the
  // time.
  void RecordPrefill(int tokens, absl::Duration spent = absl::ZeroDuration());
  // The sum of these shares.
  [[nodiscard]] absl::Duration prefill_time() const { return prefill_time_; }

  // ---- decode ----
  // The limits of the next tree. target.max_rows is this sequence's share of the forward.
  [[nodiscard]] TreeLimits Limits(const TargetInfo& target) const;
  // The draft request of a round.
  [[nodiscard]] Frontier NextFrontier(const DraftRound& round) const;
  // Records whether the Expand call with the last frontier succeeded. After a success, the next
  // frontier contains only newer tokens; after a failure, it contains all tokens again.
  void RecordExpand(bool ok) { drafter_position_ = ok ? committed_ : 0; }
  // True until an Expand call succeeds. The first one also processes the prompt.
  [[nodiscard]] bool awaits_first_draft() const { return drafter_position_ == 0; }
  // Committed tokens that the drafter has not received. The next Expand call processes them first.
  [[nodiscard]] int undrafted_tokens() const { return committed_ - drafter_position_; }
  // Applies the outcome of verifying `grown`: emits tokens up to the first stop. The caller has set
  // the fields of `record` that all sequences of the batch share (rows, stages).
  void Commit(const GrownTree& grown, const Acceptance& acceptance, CycleRecord record);
  // Keeps the tree of the next cycle in its record, until the one after it ends.
  void KeepNextTree() { keeps_next_tree_ = true; }
  // Ends the sequence because a stop string was found, and keeps only the first `tokens` tokens of
  // its output. REQUIRES: the last cycle emitted all tokens that are dropped.
  void StopAfter(size_t tokens, FinishReason reason);
  // ---- memory ----
  // Records that the verifier had no room for this sequence. `status` is its RESOURCE_EXHAUSTED.
  void RecordStarvation(absl::Status status) { starvation_ = std::move(status); }
  // True if the verifier had no room for this sequence the last time. The sequence has not failed
  // and may be tried again.
  [[nodiscard]] bool starved() const { return !starvation_.ok(); }
  // The verifier's message. OK if the sequence is not starved.
  [[nodiscard]] const absl::Status& starvation() const { return starvation_; }
  // Forgets what is committed and continues under a higher epoch. The caller has closed the
  // sequence at the verifier and the drafter, and opens it again. The output and what the policy
  // has learned stay. The state of the constraint, which can be large, is made again when needed.
  // If an exception interrupted the last Commit, its tokens are dropped: they are decoded again.
  void Preempt();

  // The next tokens if the constraint of the request allows only one text
  // (TokenConstraint::Forced). Empty without a constraint, or if the policy does not speculate.
  // Valid until Commit.
  [[nodiscard]] absl::Span<const TokenId> FindForced();
  // What became of the forced tokens that were found before the last Commit. Resets the outcome.
  struct ForcedOutcome {
    int chosen = 0;    // The target chose the first ones of them.
    int replaced = 0;  // 1: it chose another token instead of the next one. Else 0.
  };
  [[nodiscard]] ForcedOutcome TakeForcedOutcome() { return std::exchange(forced_outcome_, {}); }
  // AnswerConstraint::Prepare: true if the sequence can take part in the next cycle.
  [[nodiscard]] absl::StatusOr<bool> PrepareMask(MaskWorker& worker, bool may_compute) {
    return constraint_.Prepare(output_, worker, may_compute);
  }
  // Applies the constraint of the request, if there is one, to a tree
  // (AnswerConstraint::Constrain). An error at the root fails the sequence.
  void Constrain(GrownTree* grown);
  // The masks of the last tree, which had `rows` rows, took this long.
  void RecordMasks(int rows, absl::Duration spent) { constraint_.RecordMasks(rows, spent); }
  // What the mask of a node is expected to take, from recent trees. 0 without a constraint.
  [[nodiscard]] double mask_seconds() const { return constraint_.mask_seconds(); }

  // Ends the sequence with an error.
  void Fail(absl::Status status) { status_ = std::move(status); }

  [[nodiscard]] const DecodeRequest& request() const { return request_; }
  [[nodiscard]] SequenceId id() const { return request_.id; }
  [[nodiscard]] double weight() const { return request_.weight; }
  [[nodiscard]] std::optional<absl::Duration> latency_target() const {
    return request_.latency_target;
  }
  // How long a cycle may be planned to take, so that it keeps the target although predictions err.
  [[nodiscard]] absl::Duration longest_cycle() const {
    constexpr double kTargetShare = 0.8;
    return kTargetShare * request_.latency_target.value_or(absl::InfiniteDuration());
  }
  [[nodiscard]] Position committed() const { return committed_; }
  [[nodiscard]] TokenId root() const { return root_; }
  [[nodiscard]] const std::vector<TokenId>& output() const { return output_; }
  // One entry per output token; empty unless the request asks for log-probabilities.
  [[nodiscard]] const std::vector<TokenLogprobs>& logprobs() const { return logprobs_; }
  [[nodiscard]] const std::vector<CycleRecord>& cycles() const { return cycles_; }
  [[nodiscard]] RequestPolicy& policy() { return *policy_; }
  [[nodiscard]] const RequestPolicy& policy() const { return *policy_; }
  [[nodiscard]] FinishReason reason() const { return reason_; }
  [[nodiscard]] const absl::Status& status() const { return status_; }
  [[nodiscard]] bool done() const { return reason_ != FinishReason::kNone || !status_.ok(); }

 private:
  // Appends `token` to the output unless the sequence has ended. Ends it at a stop, at the limit,
  // or if the constraint is complete.
  void Emit(TokenId token);
  void RecordForced(absl::Span<const TokenId> emitted);
  // Keeps only the first `tokens` tokens of the output.
  void TruncateOutput(size_t tokens);
  // The token at `position` of the prompt and the output.
  [[nodiscard]] TokenId TokenAt(Position position) const;

  DecodeRequest request_;
  std::unique_ptr<RequestPolicy> policy_;
  Position committed_ = 0;     // Tokens committed at the verifier.
  std::optional<int> reused_;  // Set by the first RecordReuse.
  TokenId root_;
  std::vector<TokenId> output_;
  std::vector<TokenLogprobs> logprobs_;
  size_t whole_output_ = 0;        // Output tokens of the commits that no exception interrupted.
  Position drafter_position_ = 0;  // Committed tokens that the drafter has received.
  absl::Duration prefill_time_;
  std::vector<CycleRecord> cycles_;
  bool keeps_next_tree_ = false;
  absl::Status starvation_;
  FinishReason reason_ = FinishReason::kNone;
  absl::Status status_;
  AnswerConstraint constraint_;
  std::vector<TokenId> forced_;  // Found in this cycle.
  ForcedOutcome forced_outcome_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_SEQUENCE_H_
