// LogitEdits: applies a request's bias, minimum length and penalties to rows of logits before a
// token is chosen from them. Their order and meaning: common/stages/sampling_params.h. MaskRow
// applies its constraint, after them.
//
// Edits are made in place and undone by the destructor, because log-probabilities are computed from
// the unedited logits afterwards. Thread-compatible.
#ifndef BASTION_VERIFIER_SERVICE_VERIFY_LOGIT_EDITS_H_
#define BASTION_VERIFIER_SERVICE_VERIFY_LOGIT_EDITS_H_

#include <vector>

#include "absl/functional/function_ref.h"
#include "common/stages/draft_tree.h"
#include "common/stages/sampling_params.h"
#include "common/stages/token_set.h"
#include "verifier_service/verify/token_history.h"

namespace bastion::verifier {

class LogitEdits {
 public:
  LogitEdits() = default;
  LogitEdits(const LogitEdits&) = delete;
  LogitEdits& operator=(const LogitEdits&) = delete;
  ~LogitEdits() { Undo(); }

  // Edits the `logits` [V] of the row that follows all tokens of `history`.
  void EditRow(const SamplingParams& sampling, const TokenHistory& history, float* logits);

  // Edits the `logits` [rows, V] of all rows of `tree`, each as if the path to that row had been
  // committed. `history` is the text before the root. It is extended during the call and restored.
  void EditTree(const SamplingParams& sampling, const DraftTree& tree, int vocabulary,
                TokenHistory& history, float* logits);

  // Undo will restore the row `logits` [V]. After this, no row may be edited.
  void KeepRow(int vocabulary, float* logits);

  void Undo();

 private:
  struct Edit {
    float* logit;
    float before;
  };
  void Set(float* logit, float value);

  struct KeptRow {
    float* logits;
    std::vector<float> before;
  };

  std::vector<Edit> edits_;
  std::vector<KeptRow> kept_;
};

// Excludes all tokens that are not in `allowed` from the row `logits` [V].
void MaskRow(const TokenSet& allowed, float* logits);

// Calls visit(node) for every row of `tree`. During the call, `history`, the text before the root,
// is extended by the path to that row. It is restored before this returns.
void ForEachNodeHistory(const DraftTree& tree, TokenHistory& history,
                        absl::FunctionRef<void(NodeIndex node)> visit);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_VERIFY_LOGIT_EDITS_H_
