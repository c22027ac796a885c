// LogitEdits: what a request's bias, minimum length and penalties do to rows of logits before a
// token is chosen from them (common/stages/sampling_params.h has the order and the meaning).
//
// Edits are made in place and undone when the object goes: what the model itself thought is wanted
// again for logprobs. Thread-compatible.
#ifndef BASTION_VERIFIER_SERVICE_VERIFY_LOGIT_EDITS_H_
#define BASTION_VERIFIER_SERVICE_VERIFY_LOGIT_EDITS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "common/stages/draft_tree.h"
#include "common/stages/sampling_params.h"
#include "verifier_service/verify/token_history.h"

namespace bastion::verifier {

class LogitEdits {
 public:
  LogitEdits() = default;
  LogitEdits(const LogitEdits&) = delete;
  LogitEdits& operator=(const LogitEdits&) = delete;
  ~LogitEdits() { Undo(); }

  // Edits `logits` [V] of the row that follows all tokens of `history`.
  void EditRow(const SamplingParams& sampling, const TokenHistory& history, float* logits);

  // Edits `logits` [rows, V] of all rows of `tree`, each as if the path to it had been written.
  // `history`, the text before the root, is as before when this returns.
  void EditTree(const SamplingParams& sampling, const DraftTree& tree, int vocabulary,
                TokenHistory& history, float* logits);

  void Undo();

 private:
  struct Edit {
    float* logit;
    float before;
  };
  void Set(float* logit, float value);

  std::vector<Edit> edits_;
};

// Calls visit(node) for every row of `tree` with `history`, the text before the root, grown by the
// path to it; it is as before when this returns.
void ForEachNodeHistory(const DraftTree& tree, TokenHistory& history,
                        absl::FunctionRef<void(NodeIndex node)> visit);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_LOGIT_EDITS_H_
