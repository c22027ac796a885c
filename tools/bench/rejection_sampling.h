// Compares two ways of accepting the tokens of a drafted chain on the same prompts:
//
//   - keyed: the chain has the drafter's best tokens, and a token is accepted if it equals the
//     target's keyed choice (docs/sampling.md). A position accepts with probability p(argmax q).
//     The usual arm measures it. Then its texts are decoded again, to know p and q.
//   - SpS: the tokens are drawn from q and accepted with probability min(1, p / q)
//     (tools/sampling/rejection_sampler.h). A position accepts with probability Σ min(p, q). It is
//     simulated offline with both engines, and writes its own text.
#ifndef BASTION_TOOLS_BENCH_REJECTION_SAMPLING_H_
#define BASTION_TOOLS_BENCH_REJECTION_SAMPLING_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/engine_chain.h"
#include "tools/bench/load_comparison.h"
#include "tools/bench/measurement.h"
#include "tools/sampling/rejection_sampler.h"

namespace bastion {

// Sums over the cycles that reached a position of the chain.
struct PositionSums {
  int64_t reached = 0;
  int64_t accepted = 0;
  double overlap = 0;  // Σ min(p, q)
  double top = 0;      // p(argmax q)
};

// The cycles of one way.
struct ChainSums {
  int64_t cycles = 0;
  int64_t committed = 0;                // Sum of the committed lengths.
  std::vector<PositionSums> positions;  // [K] Element i: position i + 1 of the chain.

  void Add(const SampledCycle& cycle);
};

// One policy.
struct ChainComparison {
  std::string policy;
  int length = 0;  // K: the most drafted tokens of a cycle.
  ChainSums keyed;
  ChainSums sampled;
};

struct RejectionReport {
  std::string device, target, drafter;
  BenchSettings settings;
  std::vector<ChainComparison> chains;

  // The measurements of kind "rejection_sampling" (measurements_json.h).
  [[nodiscard]] nlohmann::json Json() const;
};

// K of a policy: the number of "linear:K" or "chain:K", or what "chain" drafts with this drafter.
// Suffixes do not matter. INVALID_ARGUMENT for a policy that verifies no chain.
[[nodiscard]] absl::StatusOr<int> ChainLength(const std::string& policy,
                                              const DrafterInfo& drafter);

// The tokens that end a text, and the stages of both measurements.
struct RejectionSetup {
  ChainStages stages;
  std::vector<TokenId> stop_tokens;  // Empty: only the limit ends a text.
};

// Simulates SpS: a text of settings.max_new_tokens after each prompt, in cycles of at most `length`
// drafted tokens. Errors: those of EngineChain; INVALID_ARGUMENT for penalties and other edits of
// logits, which p does not have.
[[nodiscard]] absl::StatusOr<ChainSums> SampleChains(const RejectionSetup& setup,
                                                     const std::vector<BenchPrompt>& prompts,
                                                     const BenchSettings& settings, int length);

// Measures each policy of `options` by an arm, with one request at a time, and simulates SpS with
// the same K. The errors of the functions above.
[[nodiscard]] absl::StatusOr<std::vector<ChainComparison>> CompareChains(
    const RejectionSetup& setup, const std::vector<BenchPrompt>& prompts,
    const BenchSettings& settings, const ComparisonOptions& options, const ArmFactory& make_arm);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_REJECTION_SAMPLING_H_
