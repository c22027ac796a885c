#include "orchestrator/profile/expert_profile.h"

#include <algorithm>
#include <limits>

#include "common/base/status.h"
#include "orchestrator/profile/random_tree.h"

namespace bastion {
namespace {

// The calls of one row count and kind of tokens.
struct Calls {
  double seconds = std::numeric_limits<double>::infinity();  // The fastest call.
  double experts = 0;                                        // The last call.

  void Add(const TimingTrace& trace) {
    seconds = std::min(seconds, absl::ToDoubleSeconds(trace.verify()));
    experts = trace.experts;
  }
};

// One row count.
struct Pair {
  int rows = 0;
  Calls mixed = {};     // Different tokens.
  Calls repeated = {};  // One token.
};

// Verifies the last `rows` of `tokens` as a chain, after the others.
absl::StatusOr<TimingTrace> VerifyChain(Verifier& verifier, SequenceId id,
                                        const std::vector<TokenId>& tokens, int rows) {
  const auto root = tokens.end() - rows;
  const auto cached = static_cast<Position>(root - tokens.begin());
  RETURN_IF_ERROR(verifier.Prefill({id, 0, {tokens.begin(), root}}).status());
  DraftTree chain(*root);
  for (NodeIndex parent = 0; parent + 1 < rows; ++parent) {
    chain.Add(parent, root[parent.value() + 1], chain.log_score(parent) - 1.0f);
  }
  ASSIGN_OR_RETURN(const VerifyResult result, verifier.Verify({{id, cached, chain}}, {}));
  RETURN_IF_ERROR(result.outcomes.at(0).status);
  return result.trace;
}

// The same in a new sequence.
absl::StatusOr<TimingTrace> VerifyAlone(Verifier& verifier, SequenceId id,
                                        const std::vector<TokenId>& tokens, int rows) {
  RETURN_IF_ERROR(verifier.Open(id, SamplingParams()));
  absl::StatusOr<TimingTrace> trace = VerifyChain(verifier, id, tokens, rows);
  verifier.Close(id);
  return trace;
}

// The slope of the line through 0 that fits the differences best, weighted by experts.
double SecondsPerExpert(const std::vector<Pair>& pairs) {
  double products = 0, squares = 0;
  for (const Pair& pair : pairs) {
    const double experts = pair.mixed.experts - pair.repeated.experts;
    products += experts * (pair.mixed.seconds - pair.repeated.seconds);
    squares += experts * experts;
  }
  return squares > 0 ? std::max(0.0, products / squares) : 0.0;
}

}  // namespace

absl::StatusOr<double> MeasureExpertSeconds(Verifier& verifier, const Clock& clock,
                                            const ExpertProfileOptions& options) {
  ASSIGN_OR_RETURN(const TargetInfo target, verifier.Info());
  const int cache = target.page_tokens > 0 ? target.kv_tokens : target.max_context;
  const int room = std::min({target.max_context, cache, target.dims.vocabulary});
  std::vector<Pair> pairs;
  for (const int rows : options.row_counts) {
    if (rows <= target.max_rows && options.context + rows <= room) pairs.push_back({rows});
  }
  SequenceId id = {options.session, 0};
  const absl::Duration start = clock.Now();
  for (int i = 0; i <= options.repetitions; ++i) {
    for (Pair& pair : pairs) {
      const DraftTree mixed =
          RandomTree(options.context + pair.rows, target.dims.vocabulary, ++id.epoch);
      ASSIGN_OR_RETURN(const TimingTrace many,
                       VerifyAlone(verifier, id, mixed.tokens(), pair.rows));
      const std::vector<TokenId> repeated(mixed.rows(), mixed.token(0));
      ++id.epoch;
      ASSIGN_OR_RETURN(const TimingTrace few, VerifyAlone(verifier, id, repeated, pair.rows));
      if (i == 0) continue;  // The first repetition warms up.
      pair.mixed.Add(many);
      pair.repeated.Add(few);
    }
    if (i > 0 && clock.Now() - start > options.time_limit) break;
  }
  return SecondsPerExpert(pairs);
}

}  // namespace bastion
