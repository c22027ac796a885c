// GrammarConstraint: the constraint of a request whose answer a grammar describes.
#ifndef BASTION_ORCHESTRATOR_INTAKE_GRAMMAR_CONSTRAINT_H_
#define BASTION_ORCHESTRATOR_INTAKE_GRAMMAR_CONSTRAINT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/call_once.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "bastion/v1/generation.pb.h"
#include "common/hub/grammar.h"
#include "common/hub/tokenizer.h"
#include "orchestrator/cycle/token_constraint.h"
#include "orchestrator/intake/constraint_cache.h"
#include "orchestrator/intake/reasoning.h"
#include "orchestrator/intake/served_model.h"
#include "orchestrator/intake/work_limit.h"

namespace bastion {

// Thread-compatible.
class GrammarConstraint final : public TokenConstraint {
 public:
  // `tokenizer` must outlive this object and its copies.
  GrammarConstraint(hub::GrammarState state, const hub::Tokenizer* tokenizer)
      : state_(std::move(state)), tokenizer_(tokenizer) {}

  absl::StatusOr<std::unique_ptr<TokenConstraint>> Copy() const override;
  // INVALID_ARGUMENT, for clients, if the grammar is too complex. DEADLINE_EXCEEDED from Allowed:
  // see LimitTime. If a token takes too long, the grammar is too complex.
  absl::StatusOr<TokenSet> Allowed() override;
  std::vector<TokenId> Forced() override;
  absl::Status Push(TokenId token) override;
  absl::Status Pop(int tokens) override { return state_.Pop(tokens); }
  bool complete() const override { return state_.complete(); }
  void LimitTime(absl::Duration limit) override { limit_ = limit; }
  size_t bytes() const override { return state_.bytes(); }

 private:
  hub::GrammarState state_;
  const hub::Tokenizer* tokenizer_;
  absl::Duration limit_ = absl::InfiniteDuration();
};

// For whom a constraint is compiled.
struct ConstraintCaller {
  std::string client = {};                             // PreparedRequest::client
  std::string origin = {};                             // ConstraintCache::Owner
  absl::Duration deadline = absl::InfiniteDuration();  // On Clock::Real().
  std::function<bool()> is_canceled = nullptr;         // Null: never. Any thread may call it.
};

// Compiles the constraints of requests, a few at a time. Compiling takes limited memory and CPU
// time (hub::GrammarCompiler), is fair among callers, and ends when the caller is gone.
// Thread-safe.
class ConstraintCompiler {
 public:
  // `model` must outlive this object and its constraints.
  explicit ConstraintCompiler(const ServedModel* model);

  // The constraint of a request whose answer begins with `reasoning`; null if it has none. Requests
  // with different salts share none, so that no client learns from the time of an answer what
  // others asked for. INVALID_ARGUMENT, for clients, with the name of the field, if it is not
  // valid, contradicts the stop conditions, or the model has no end token. RESOURCE_EXHAUSTED:
  // ConstraintCache. CANCELLED or DEADLINE_EXCEEDED, for clients.
  [[nodiscard]] absl::StatusOr<std::shared_ptr<const TokenConstraint>> Compile(
      const v1::GenerateRequest& request, absl::string_view cache_salt,
      const ConstraintCaller& caller, ReasoningStart reasoning = ReasoningStart::kNone);

 private:
  // Makes the compiler at the first call, because that takes time and memory.
  [[nodiscard]] const absl::StatusOr<hub::GrammarCompiler>& grammars();

  const ServedModel* const model_;
  absl::once_flag once_;
  std::optional<absl::StatusOr<hub::GrammarCompiler>> grammars_;
  ConstraintCache cache_;
  WorkLimit compiling_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_INTAKE_GRAMMAR_CONSTRAINT_H_
