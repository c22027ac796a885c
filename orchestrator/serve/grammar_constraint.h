// GrammarConstraint: the constraint of a request whose answer a grammar describes.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_SERVE_GRAMMAR_CONSTRAINT_H_
#define BASTION_ORCHESTRATOR_SERVE_GRAMMAR_CONSTRAINT_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "bastion/v1/generation.pb.h"
#include "common/hub/grammar.h"
#include "common/hub/tokenizer.h"
#include "orchestrator/cycle/token_constraint.h"
#include "orchestrator/serve/served_model.h"

namespace bastion {

class GrammarConstraint final : public TokenConstraint {
 public:
  // `tokenizer` must outlive this object and its copies.
  GrammarConstraint(hub::GrammarState state, const hub::Tokenizer* tokenizer)
      : state_(std::move(state)), tokenizer_(tokenizer) {}

  absl::StatusOr<std::unique_ptr<TokenConstraint>> Copy() const override;
  // INVALID_ARGUMENT, for clients, if the grammar is too complex.
  absl::StatusOr<TokenSet> Allowed() override;
  std::vector<TokenId> Forced() override;
  absl::Status Push(TokenId token) override;
  absl::Status Pop(int tokens) override { return state_.Pop(tokens); }
  bool complete() const override { return state_.complete(); }

 private:
  static constexpr size_t kLongestForced = 4096;  // Bytes.

  hub::GrammarState state_;
  const hub::Tokenizer* tokenizer_;
  // False after a longer text was forced: finding it takes time in every cycle.
  bool looks_for_forced_ = true;
};

// Compiles the constraint of a request; null if it has none. INVALID_ARGUMENT, for clients, with
// the name of the field, if it is not valid, contradicts the stop conditions, or the model has no
// end token.
[[nodiscard]] absl::StatusOr<std::shared_ptr<const TokenConstraint>> CompileConstraint(
    const v1::GenerateRequest& request, const ServedModel& model);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_GRAMMAR_CONSTRAINT_H_
