// EngineChain: the distributions p of a target and q of a drafter along one text, for a
// RejectionSampler. Plain decoding gives p: the tokens of the sampler are forced on the target, one
// forward per token. The drafter expands a chain as it does for policies, but reports its whole
// vocabulary. Both distributions are at the request's temperature, after its top-k, top-p and
// min-p. Thread-compatible.
#ifndef BASTION_TOOLS_BENCH_ENGINE_CHAIN_H_
#define BASTION_TOOLS_BENCH_ENGINE_CHAIN_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/stages/stages.h"
#include "orchestrator/tree/cycle_draft.h"
#include "tools/sampling/rejection_sampler.h"

namespace bastion {

// The stages of a chain. Not owned.
struct ChainStages {
  Verifier* verifier = nullptr;
  Drafter* drafter = nullptr;
};

class EngineChain final : public ChainSource {
 public:
  // Opens the sequence `id` and commits `prompt`, whose last token is the first root. Errors: those
  // of the stages; UNIMPLEMENTED for a drafter with pair scores, whose q would need a score for
  // each pair of tokens. REQUIRES: `prompt` is not empty; the stages outlive this object.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<EngineChain>> Open(
      const ChainStages& stages, SequenceId id, const ChoiceParams& choice,
      absl::Span<const TokenId> prompt);
  ~EngineChain() override;
  EngineChain(const EngineChain&) = delete;
  EngineChain& operator=(const EngineChain&) = delete;

  // FAILED_PRECONDITION if the drafter does not report its whole distribution.
  absl::StatusOr<std::vector<double>> Draft(absl::Span<const TokenId> drafted) override;
  absl::StatusOr<std::vector<double>> Target(absl::Span<const TokenId> accepted) override;
  // Ends a cycle. `tokens`: SampledCycle::tokens.
  void Commit(absl::Span<const TokenId> tokens);

  // Whether both models have room for a cycle of `length` drafted tokens.
  [[nodiscard]] bool HasRoom(int length) const;

 private:
  EngineChain(const ChainStages& stages, SequenceId id, const ChoiceParams& choice)
      : stages_(stages), id_(id), choice_(choice) {}
  [[nodiscard]] absl::Status Start(absl::Span<const TokenId> prompt);
  // The drafter's marginals after the root and `path`.
  [[nodiscard]] absl::StatusOr<Marginals> Expand(absl::Span<const TokenId> path, int candidates);
  [[nodiscard]] Position committed() const { return static_cast<Position>(text_.size()) - 1; }

  const ChainStages stages_;
  const SequenceId id_;
  const ChoiceParams choice_;
  TargetInfo target_;
  DrafterInfo drafter_;
  std::vector<TokenId> text_;  // The committed tokens and the root.
  Position drafter_has_ = 0;   // Committed tokens that were sent to the drafter.
  CycleDraft draft_;           // This cycle.
};

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_ENGINE_CHAIN_H_
