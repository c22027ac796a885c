// DecodeSequence: one request on its way through the cycle, as the orchestrator sees it: the
// prompt, what was generated, what is committed at the verifier, and how its trees are grown.
//
// The prompt's last token is the first root: prefill commits the tokens before it, so the first
// cycle already speculates. Thread-compatible: the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_CYCLE_SEQUENCE_H_
#define BASTION_ORCHESTRATOR_CYCLE_SEQUENCE_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "common/stages/stage_data.h"
#include "orchestrator/cost/stage_times.h"
#include "orchestrator/policy/tree_grower.h"

namespace bastion {

struct DecodeRequest {
  SequenceId id;
  std::vector<TokenId> prompt;  // At least one token.
  SamplingParams sampling;
  int max_tokens = 0;  // At least one.
  absl::flat_hash_set<TokenId> stop_tokens;
  std::optional<int> max_nodes;  // Of a tree; without a value the policy decides alone.
};

enum class FinishReason { kNone, kStopToken, kStopString, kLength };

// One cycle of one sequence.
struct CycleRecord {
  int nodes = 0;
  int committed_length = 0;  // Tokens of this cycle that count: none after a stop.
  int rows = 0;              // Of the whole verify call.
  bool drafted = false;
  BudgetReason reason = BudgetReason::kPolicy;
  int accepted = 0;                 // Nodes accepted: one at each depth from 1 on.
  absl::Duration predicted_verify;  // Of stages.verify.
  StageTimes stages;
};

class DecodeSequence {
 public:
  // REQUIRES: the request's invariants above.
  DecodeSequence(DecodeRequest request, TreeGrower grower);

  // ---- prefill ----
  // Prompt tokens not committed yet, at most `most`; empty when the sequence can decode.
  [[nodiscard]] PrefillItem NextPrefill(int most) const;
  void Prefilled(int tokens) { committed_ += tokens; }

  // ---- decode ----
  [[nodiscard]] TreeLimits Limits(const TargetInfo& target) const;
  // What to ask the drafter for.
  [[nodiscard]] Frontier NextFrontier(const TreeLimits& limits) const;
  // Whether the Expand with the last frontier succeeded. The next frontier then names only newer
  // tokens; after a failure it names all again.
  void Expanded(bool ok) { drafter_position_ = ok ? committed_ : 0; }
  // Takes the outcome of verifying `grown`: emits tokens up to the first stop. `record` comes with
  // the batch's times filled in.
  void Commit(const GrownTree& grown, const Acceptance& acceptance, CycleRecord record);
  // Ends the sequence from outside, with the first `tokens` of its output: a stop string.
  void Finish(FinishReason reason, size_t tokens);
  void Fail(absl::Status status) { status_ = std::move(status); }

  [[nodiscard]] const DecodeRequest& request() const { return request_; }
  [[nodiscard]] SequenceId id() const { return request_.id; }
  [[nodiscard]] Position committed() const { return committed_; }
  [[nodiscard]] TokenId root() const { return root_; }
  [[nodiscard]] const std::vector<TokenId>& output() const { return output_; }
  // Of the output's tokens; empty unless the request asks for them.
  [[nodiscard]] const std::vector<TokenLogprobs>& logprobs() const { return logprobs_; }
  [[nodiscard]] const std::vector<CycleRecord>& cycles() const { return cycles_; }
  [[nodiscard]] TreeGrower& grower() { return grower_; }
  [[nodiscard]] const TreeGrower& grower() const { return grower_; }
  [[nodiscard]] FinishReason reason() const { return reason_; }
  [[nodiscard]] const absl::Status& status() const { return status_; }
  [[nodiscard]] bool done() const { return reason_ != FinishReason::kNone || !status_.ok(); }

 private:
  void Emit(TokenId token);
  // The token at `position` < committed.
  [[nodiscard]] TokenId TokenAt(Position position) const;

  DecodeRequest request_;
  TreeGrower grower_;
  Position committed_ = 0;
  TokenId root_;
  std::vector<TokenId> output_;
  std::vector<TokenLogprobs> logprobs_;
  Position drafter_position_ = 0;  // Committed tokens that the drafter was given.
  std::vector<CycleRecord> cycles_;
  FinishReason reason_ = FinishReason::kNone;
  absl::Status status_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CYCLE_SEQUENCE_H_
