#include "tests/support/fake_stages.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "common/base/status.h"

namespace bastion::testing {
namespace {

uint64_t Mix(uint64_t state, uint64_t value) {
  state = (state ^ value) * 0x9E3779B97F4A7C15;
  return state ^ (state >> 29);
}

uint64_t HashOf(absl::Span<const TokenId> prefix, uint64_t seed) {
  uint64_t state = Mix(0xB5297A4D, seed);
  for (const TokenId token : prefix) state = Mix(state, static_cast<uint64_t>(token) + 1);
  return Mix(state, prefix.size());
}

// Every token is a bit less likely than the one before it, beginning with the free choice.
TokenLogprobs LogprobsAfter(absl::Span<const TokenId> prefix, const SamplingParams& sampling,
                            TokenId chosen) {
  const TokenId best = ToyNext(prefix, sampling);
  const auto logprob = [](int rank) { return -0.5f * static_cast<float>(rank + 1); };
  TokenLogprobs logprobs;
  logprobs.chosen = logprob((chosen - best + kToyVocabulary) % kToyVocabulary);
  for (int rank = 0; rank < *sampling.logprobs; ++rank) {
    logprobs.top.emplace_back((best + rank) % kToyVocabulary, logprob(rank));
  }
  return logprobs;
}

// Follows the target's choices down the tree, as far as the tree contains them. Appends the root
// and the accepted tokens to `tokens`.
Acceptance Walk(const DraftTree& tree, const RowMasks& masks, std::vector<TokenId>& tokens,
                const SamplingParams& sampling) {
  Acceptance acceptance;
  NodeIndex at = 0;
  while (at != kNoNode) {
    tokens.push_back(tree.token(at));
    acceptance.next = ToyNext(tokens, sampling, masks.Of(at));
    if (sampling.logprobs)
      acceptance.logprobs.push_back(LogprobsAfter(tokens, sampling, acceptance.next));
    const NodeIndex from = std::exchange(at, kNoNode);
    for (NodeIndex child = 1; child < tree.rows(); ++child) {
      if (tree.parent(child) == from && tree.token(child) == acceptance.next) at = child;
    }
    if (at != kNoNode) acceptance.path.push_back(at);
  }
  return acceptance;
}

int PagesFor(size_t tokens) { return (static_cast<int>(tokens) + kToyPage - 1) / kToyPage; }

size_t RowsOf(const Forest& forest, absl::Span<const PrefillItem> prompts) {
  size_t rows = 0;
  for (const VerifyItem& item : forest) rows += item.tree.rows();
  for (const PrefillItem& item : prompts) rows += item.tokens.size();
  return rows;
}

}  // namespace

TokenId ToyNext(absl::Span<const TokenId> prefix, const ChoiceParams& sampling,
                const TokenSet* allowed) {
  const uint64_t seed = sampling.temperature == 0 ? 0 : sampling.seed + 1;
  auto token = static_cast<TokenId>(HashOf(prefix, seed) % kToyVocabulary);
  while (allowed != nullptr && !allowed->contains(token)) token = (token + 1) % kToyVocabulary;
  return token;
}

std::vector<TokenId> ToyText(std::vector<TokenId> prompt, const SamplingParams& sampling,
                             int count) {
  std::vector<TokenId> text;
  for (int i = 0; i < count; ++i) {
    text.push_back(ToyNext(prompt, sampling));
    prompt.push_back(text.back());
  }
  return text;
}

absl::StatusOr<TargetInfo> FakeVerifier::Info() {
  TargetInfo info;
  info.model = "toy";
  info.device = "none";
  info.dims = {2, 4, 2, 1, 3, 5, kToyVocabulary, 4};
  info.peaks = {1e6, 1e6};
  info.max_context = max_context;
  info.max_rows = kToyRows;
  info.kv_tokens = kv_tokens;
  info.page_tokens = kToyPage;
  info.identity = identity;
  info.takes_masks = takes_masks;
  return info;
}

absl::Status FakeVerifier::Open(SequenceId sequence, const SamplingParams& sampling) {
  const auto found = live_.find(sequence.session);
  if (found != live_.end() && found->second.id.epoch == sequence.epoch) {
    return absl::AlreadyExistsError("the sequence is already open");
  }
  if (found != live_.end() && found->second.id.epoch > sequence.epoch) {
    return absl::FailedPreconditionError("the epoch is stale");
  }
  if (found != live_.end()) Erase(found);
  live_[sequence.session] = {sequence, sampling};
  return absl::OkStatus();
}

std::optional<FakeVerifier::Prefix> FakeVerifier::NextPrefix(const State& state,
                                                             const std::vector<TokenId>& tokens) {
  const size_t end = static_cast<size_t>(state.shared + 1) * kToyPage;
  if (!state.salt.has_value() || tokens.size() < end) return std::nullopt;
  return Prefix(*state.salt, {tokens.begin(), tokens.begin() + end});
}

absl::StatusOr<int> FakeVerifier::ReusePrefix(const PrefixItem& item) {
  seen_.clear();
  ASSIGN_OR_RETURN(State * state, Find(item.sequence, 0, 0));
  state->salt = item.salt;
  while (const std::optional<Prefix> prefix = NextPrefix(*state, item.tokens)) {
    const auto found = cached_.find(*prefix);
    if (found == cached_.end()) break;
    ++found->second;
    ++state->shared;
    state->tokens = prefix->second;
  }
  state->pages = state->shared;
  return state->shared * kToyPage;
}

absl::StatusOr<FakeVerifier::State*> FakeVerifier::Find(SequenceId id, Position cached, int count) {
  if (!seen_.insert(id.session).second) {
    return absl::InvalidArgumentError("the sequence occurs twice");
  }
  const auto found = live_.find(id.session);
  if (found == live_.end()) return absl::NotFoundError("unknown sequence");
  State& state = found->second;
  if (state.id != id) return absl::FailedPreconditionError("the epoch is stale");
  if (cached != static_cast<Position>(state.tokens.size())) {
    return absl::FailedPreconditionError("`cached` is not the number of committed tokens");
  }
  if (cached + count > max_context) return absl::OutOfRangeError("past the context");
  return &state;
}

int FakeVerifier::own_pages() const {
  int pages = 0;
  for (const auto& [session, state] : live_) pages += state.pages - state.shared;
  return pages;
}

int FakeVerifier::free_pages() const {
  const auto shared = std::count_if(cached_.begin(), cached_.end(),
                                    [](const auto& entry) { return entry.second > 0; });
  return kv_tokens / kToyPage - own_pages() - static_cast<int>(shared);
}

absl::Status FakeVerifier::Reserve(State& state, size_t tokens) {
  const int missing = PagesFor(tokens) - state.pages;
  if (missing > free_pages()) return absl::ResourceExhaustedError("too few free pages");
  state.pages += std::max(0, missing);
  for (auto entry = cached_.begin(); entry != cached_.end();) {
    const bool full = own_pages() + static_cast<int>(cached_.size()) > kv_tokens / kToyPage;
    entry = full && entry->second == 0 ? cached_.erase(entry) : std::next(entry);
  }
  return absl::OkStatus();
}

void FakeVerifier::UpdatePages() {
  for (auto& [session, state] : live_) {
    state.pages = PagesFor(state.tokens.size());
    while (const std::optional<Prefix> prefix = NextPrefix(state, state.tokens)) {
      ++cached_[*prefix];
      ++state.shared;
    }
  }
}

absl::StatusOr<FakeVerifier::State*> FakeVerifier::AdmitRoot(const VerifyItem& item) {
  RETURN_IF_ERROR(item.tree.Validate(kToyVocabulary));
  RETURN_IF_ERROR(item.masks.Validate(item.tree.rows(), kToyVocabulary));
  int depth = 0;
  for (NodeIndex i = 0; i < item.tree.rows(); ++i) depth = std::max(depth, item.tree.depth(i));
  ASSIGN_OR_RETURN(State * state, Find(item.sequence, item.cached, 1 + depth));
  RETURN_IF_ERROR(Reserve(*state, state->tokens.size() + 1));
  return state;
}

absl::StatusOr<FakeVerifier::State*> FakeVerifier::AdmitPrompt(const PrefillItem& item) {
  if (item.tokens.empty()) return absl::InvalidArgumentError("the prompt has no tokens");
  for (const TokenId token : item.tokens) {
    if (token < 0 || token >= kToyVocabulary) {
      return absl::InvalidArgumentError("the token is outside the vocabulary");
    }
  }
  const auto count = static_cast<int>(item.tokens.size());
  ASSIGN_OR_RETURN(State * state, Find(item.sequence, item.cached, count));
  RETURN_IF_ERROR(Reserve(*state, state->tokens.size() + item.tokens.size()));
  return state;
}

absl::StatusOr<VerifyResult> FakeVerifier::Verify(const Forest& forest,
                                                  absl::Span<const PrefillItem> prompts) {
  last_forest = forest;
  last_prompts.assign(prompts.begin(), prompts.end());
  if (call_error) return *call_error;
  if (RowsOf(forest, prompts) > kToyRows) return absl::InvalidArgumentError("too many rows");
  seen_.clear();
  VerifyResult result;
  std::vector<absl::StatusOr<State*>> admitted;
  for (const VerifyItem& item : forest) admitted.push_back(AdmitRoot(item));
  for (size_t i = 0; i < forest.size(); ++i) {
    VerifyOutcome& outcome = result.outcomes.emplace_back();
    outcome.status = admitted[i].status();
    if (!admitted[i].ok()) continue;
    State& state = **admitted[i];
    const bool whole = Reserve(state, state.tokens.size() + forest[i].tree.rows()).ok();
    const DraftTree tree = whole ? forest[i].tree : DraftTree(forest[i].tree.token(0));
    outcome.acceptance = Walk(tree, forest[i].masks, state.tokens, state.sampling);
    if (forced_acceptance) outcome.acceptance = *forced_acceptance;
    result.trace.rows += tree.rows();
    result.trace.contexts.push_back(forest[i].cached);
  }
  for (const PrefillItem& item : prompts) {
    const absl::StatusOr<State*> state = AdmitPrompt(item);
    result.prompts.push_back(state.status());
    if (!state.ok()) continue;
    (*state)->tokens.insert((*state)->tokens.end(), item.tokens.begin(), item.tokens.end());
    result.trace.rows += static_cast<int>(item.tokens.size());
    result.trace.contexts.push_back(item.cached);
  }
  UpdatePages();
  result.free_kv_tokens = free_pages() * kToyPage;
  result.trace.forward = absl::Milliseconds(1) + result.trace.rows * absl::Microseconds(10);
  return result;
}

void FakeVerifier::Erase(std::map<uint64_t, State>::iterator live) {
  State& state = live->second;
  while (state.shared > 0) {
    --state.shared;
    --cached_.at(*NextPrefix(state, state.tokens));
  }
  live_.erase(live);
}

void FakeVerifier::Close(SequenceId sequence) {
  if (Tokens(sequence) != nullptr) Erase(live_.find(sequence.session));
}

const std::vector<TokenId>* FakeVerifier::Tokens(SequenceId sequence) const {
  const auto found = live_.find(sequence.session);
  const bool is_open = found != live_.end() && found->second.id == sequence;
  return is_open ? &found->second.tokens : nullptr;
}

absl::StatusOr<DrafterInfo> FakeDrafter::Info() {
  ++info_calls;
  if (call_error) return *call_error;
  return DrafterInfo{.model = "toy-drafter",
                     .positions = positions(),
                     .vocabulary = vocabulary,
                     .max_context = kToyContext,
                     .expands_nodes = expands_nodes};
}

void FakeDrafter::AddPairScores(int position, TokenId truth, Marginals* marginals) {
  for (int previous = 0; previous < marginals->candidates; ++previous) {
    const bool used = previous == 0 || position > 0;
    for (int r = 0; r < marginals->candidates; ++r) {
      const bool right = marginals->token(position, r) == truth;
      marginals->pair_scores.push_back(used && right ? 4.0f : 0.0f);
    }
  }
}

Marginals FakeDrafter::MarginalsAfter(const std::vector<TokenId>& prefix,
                                      const Frontier& frontier) const {
  Marginals marginals;
  marginals.positions = positions();
  marginals.candidates = std::min(frontier.candidates, kToyVocabulary);
  std::vector<TokenId> tokens = prefix;
  for (int p = 0; p < positions(); ++p) {
    const TokenId truth = ToyNext(tokens, frontier.sampling);
    const uint64_t dice = HashOf(tokens, 0xD1CE) % 100;
    // A wrong draft has the target's token as its second candidate.
    const int shift = dice < static_cast<uint64_t>(percent_right) ? 0 : kToyVocabulary - 1;
    for (int r = 0; r < marginals.candidates; ++r) {
      marginals.tokens.push_back((truth + shift + r) % kToyVocabulary);
      const float log_prob = std::log(0.6f) + static_cast<float>(r) * std::log(0.4f);
      marginals.log_probs.push_back(sends_invalid_marginals ? 1.0f : log_prob);
    }
    if (scores_pairs) AddPairScores(p, truth, &marginals);
    tokens.push_back(truth);
  }
  return marginals;
}

absl::StatusOr<DraftResult> FakeDrafter::Expand(absl::Span<const Frontier> requested) {
  frontiers.insert(frontiers.end(), requested.begin(), requested.end());
  if (call_error) return *call_error;
  if (expand_error) return *expand_error;
  DraftResult result;
  std::set<uint64_t> seen;  // Sessions of this call.
  for (const Frontier& frontier : requested) {
    uint32_t& epoch = epochs_.try_emplace(frontier.sequence.session, 0).first->second;
    Draft& draft = result.drafts.emplace_back();
    if (frontier.sequence.epoch < epoch) {
      draft.status = absl::FailedPreconditionError("stale epoch");
      continue;
    }
    if (!seen.insert(frontier.sequence.session).second) {
      draft.status = absl::InvalidArgumentError("the session occurs twice");
      continue;
    }
    epoch = frontier.sequence.epoch;
    const std::vector<TokenId>* committed = target_->Tokens(frontier.sequence);
    const bool known =
        committed != nullptr && static_cast<size_t>(frontier.committed) <= committed->size();
    const std::pair<Position, TokenId> tree = {frontier.committed, frontier.root};
    const auto is_root = [](const auto& path) { return path.empty(); };
    if (std::any_of(frontier.paths.begin(), frontier.paths.end(), is_root)) {
      trees_[frontier.sequence.session] = tree;
    }
    const bool begun = trees_[frontier.sequence.session] == tree;
    for (const std::vector<TokenId>& path : frontier.paths) {
      draft.marginals.emplace_back();
      if (!known || !begun || !(path.empty() || expands_nodes)) continue;
      std::vector<TokenId> prefix(committed->begin(), committed->begin() + frontier.committed);
      prefix.push_back(frontier.root);
      prefix.insert(prefix.end(), path.begin(), path.end());
      draft.marginals.back() = MarginalsAfter(prefix, frontier);
    }
  }
  result.trace.drafts = static_cast<int>(requested.size());
  return result;
}

void FakeDrafter::Close(SequenceId sequence) {
  closed.push_back(sequence);
  epochs_.erase(sequence.session);
  trees_.erase(sequence.session);
}

}  // namespace bastion::testing
