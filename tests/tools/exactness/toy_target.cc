#include "tests/tools/exactness/toy_target.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "common/base/random.h"
#include "common/base/status.h"

namespace bastion::testing {
namespace {

constexpr int kContext = 512;
constexpr int kRows = 256;
constexpr int kKvTokens = 1 << 20;  // Never full: sequences take no memory.
constexpr int kDraftPositions = 4;

std::vector<float> LogSoftmax(std::vector<float> logits) {
  double total = 0;
  for (const float logit : logits) total += std::exp(logit);
  for (float& logit : logits) logit -= static_cast<float>(std::log(total));
  return logits;
}

std::vector<TokenId> SortedByLogit(const std::vector<float>& logits) {
  std::vector<TokenId> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  return order;
}

std::vector<float> LogitsAfter(const std::vector<TokenId>& path) {
  const size_t size = path.size();
  return ToyLogits(size > 1 ? path[size - 2] : 0, path[size - 1]);
}

void Penalize(const SamplingParams& sampling, const std::vector<TokenId>& tokens,
              std::vector<float>& logits) {
  std::vector<int> anywhere(kToyTokens, 0), output(kToyTokens, 0);
  for (size_t i = 0; i < tokens.size(); ++i) {
    ++anywhere[tokens[i]];
    if (i >= static_cast<size_t>(sampling.prompt_tokens)) ++output[tokens[i]];
  }
  for (TokenId x = 0; x < kToyTokens; ++x) {
    if (anywhere[x] > 0) {
      logits[x] *= logits[x] > 0 ? 1 / sampling.repetition_penalty : sampling.repetition_penalty;
    }
    logits[x] -= sampling.frequency_penalty * static_cast<float>(output[x]);
    if (output[x] > 0) logits[x] -= sampling.presence_penalty;
  }
}

}  // namespace

std::vector<float> ToyLogits(TokenId before, TokenId last) {
  std::vector<float> logits;
  logits.reserve(kToyTokens);
  for (TokenId x = 0; x < kToyTokens; ++x) {
    // The last token has the largest effect, so that a drafter that knows only the last token
    // often predicts correctly.
    logits.push_back(1.2f * KeyedGumbel(77, last, x) + 0.3f * KeyedGumbel(78, before, x));
  }
  return logits;
}

absl::StatusOr<TargetInfo> ToyTarget::Info() {
  TargetInfo info;
  info.model = "toy";
  info.dims = {2, 4, 2, 1, 3, 5, kToyTokens, 4};
  info.peaks = {1e6, 1e6};
  info.max_context = kContext;
  info.max_rows = kRows;
  info.kv_tokens = kKvTokens;
  info.page_tokens = 16;
  return info;
}

absl::Status ToyTarget::Open(SequenceId sequence, const SamplingParams& sampling) {
  RETURN_IF_ERROR(sampling.Validate(kToyTokens));
  const bool fresh = live_.try_emplace(sequence.session, State{sampling, {}}).second;
  return fresh ? absl::OkStatus() : absl::AlreadyExistsError("the session is open");
}

// The keyed choice after `path`. Penalties count the tokens `penalized`.
TokenId ToyTarget::Choose(const State& state, const std::vector<TokenId>& path,
                          const std::vector<TokenId>& penalized) const {
  const SamplingParams& sampling = state.sampling;
  std::vector<float> logits = LogitsAfter(path);
  Penalize(sampling, penalized, logits);
  const std::vector<TokenId> order = SortedByLogit(logits);
  if (sampling.temperature == 0) return order[0];
  const Position position =
      fault_ == ToyFault::kNoPositionInKey ? 0 : static_cast<Position>(path.size());
  std::vector<double> mass;
  mass.reserve(logits.size());
  for (const float logit : logits) mass.push_back(std::exp(logit / sampling.temperature));
  const double total = std::accumulate(mass.begin(), mass.end(), 0.0);
  TokenId best = kNoToken;
  double best_value = 0, sum = 0;
  for (const TokenId x : order) {
    if (best != kNoToken && sum >= sampling.top_p * total) break;
    sum += mass[x];
    const double value = logits[x] / sampling.temperature + KeyedGumbel(sampling.seed, position, x);
    if (best == kNoToken || value > best_value) {
      best = x;
      best_value = value;
    }
  }
  return best;
}

Acceptance ToyTarget::Walk(State& state, const DraftTree& tree) const {
  const std::vector<TokenId> before = state.tokens;
  Acceptance acceptance;
  for (NodeIndex at = 0; at != kNoNode;) {
    state.tokens.push_back(tree.token(at));
    std::vector<TokenId> penalized = state.tokens;
    if (fault_ == ToyFault::kLeakyPenalty) {
      penalized = before;
      penalized.insert(penalized.end(), tree.tokens().begin(), tree.tokens().end());
    }
    acceptance.next = Choose(state, state.tokens, penalized);
    const std::vector<float> logits = LogitsAfter(state.tokens);
    const bool by_argmax = fault_ == ToyFault::kArgmaxWalk && state.sampling.temperature > 0;
    const TokenId followed = by_argmax ? SortedByLogit(logits)[0] : acceptance.next;
    if (state.sampling.logprobs) {
      const std::vector<float> log_probs = LogSoftmax(logits);
      TokenLogprobs& reported = acceptance.logprobs.emplace_back();
      reported.chosen = log_probs[acceptance.next];
      for (const TokenId x : SortedByLogit(log_probs)) reported.top.emplace_back(x, log_probs[x]);
      reported.top.resize(*state.sampling.logprobs);
    }
    const NodeIndex from = at;
    at = kNoNode;
    for (NodeIndex child = from + 1; child < tree.rows(); ++child) {
      if (tree.parent(child) == from && tree.token(child) == followed) at = child;
    }
    if (at != kNoNode) acceptance.path.push_back(at);
  }
  return acceptance;
}

absl::StatusOr<VerifyResult> ToyTarget::Verify(const Forest& forest,
                                               absl::Span<const PrefillItem> prompts) {
  VerifyResult result;
  for (const VerifyItem& item : forest) {
    State& state = live_.at(item.sequence.session);
    if (item.cached != static_cast<Position>(state.tokens.size())) {
      return absl::FailedPreconditionError("`cached` is not the number of committed tokens");
    }
    RETURN_IF_ERROR(item.tree.Validate(kToyTokens));
    VerifyOutcome& outcome = result.outcomes.emplace_back();
    outcome.acceptance = Walk(state, item.tree);
    result.trace.rows += item.tree.rows();
    result.trace.contexts.push_back(item.cached);
  }
  for (const PrefillItem& item : prompts) {
    State& state = live_.at(item.sequence.session);
    state.tokens.insert(state.tokens.end(), item.tokens.begin(), item.tokens.end());
    result.prompts.push_back(absl::OkStatus());
    result.trace.rows += static_cast<int>(item.tokens.size());
    result.trace.contexts.push_back(item.cached);
  }
  result.free_kv_tokens = kKvTokens;
  if (result.trace.rows > kRows) return absl::InvalidArgumentError("too many rows");
  result.trace.forward = absl::Milliseconds(1);
  return result;
}

absl::StatusOr<DrafterInfo> ToyDrafter::Info() {
  return DrafterInfo{"toy-drafter", kDraftPositions, kToyTokens, kContext};
}

absl::StatusOr<DraftResult> ToyDrafter::Expand(absl::Span<const Frontier> frontiers) {
  DraftResult result;
  for (const Frontier& frontier : frontiers) {
    Marginals& marginals = result.drafts.emplace_back().marginals.emplace_back();
    if (silent) continue;
    marginals.positions = kDraftPositions;
    marginals.candidates = std::min(frontier.candidates, kToyTokens);
    TokenId last = frontier.root;
    for (int p = 0; p < kDraftPositions; ++p) {
      const std::vector<float> log_probs = LogSoftmax(ToyLogits(0, last));
      const std::vector<TokenId> order = SortedByLogit(log_probs);
      for (int r = 0; r < marginals.candidates; ++r) {
        marginals.tokens.push_back(order[r]);
        marginals.log_probs.push_back(std::min(0.0f, log_probs[order[r]]));
      }
      last = order[0];
    }
  }
  return result;
}

}  // namespace bastion::testing
