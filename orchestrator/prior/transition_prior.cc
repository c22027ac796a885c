#include "orchestrator/prior/transition_prior.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace bastion {
namespace {

// The first source with continuation counts; the sources before it read the table.
constexpr int kFirstCounted = static_cast<int>(PriorSource::kLearnedOne);
// k_s. Larger for sources other than this request.
constexpr std::array<float, kPriorSources> kSmoothing = {
    TransitionGains::kSmoothing, TransitionGains::kSmoothing, 20, 20, 1, 1, 1};

void PushFront(RecentTokens& recent, TokenId token) {
  std::copy_backward(recent.tokens.begin(), recent.tokens.end() - 1, recent.tokens.end());
  recent.tokens[0] = token;
  recent.size = std::min(recent.size + 1, RecentTokens::kMaxSize);
}

}  // namespace

void GainList::Clear() {
  entries_.clear();
  ++round_;
}

size_t GainList::SlotOf(TokenId token) const {
  size_t at = (static_cast<uint32_t>(token) * 0x9E3779B1u) >> 24;
  while (slots_[at].round == round_ && entries_[slots_[at].index].token != token) {
    at = (at + 1) % kSlots;
  }
  return at;
}

const TokenGains* GainList::Find(TokenId token) const {
  const Slot& slot = slots_[SlotOf(token)];
  return slot.round == round_ ? &entries_[slot.index] : nullptr;
}

TokenGains& GainList::FindOrAdd(TokenId token) {
  const size_t at = SlotOf(token);
  if (slots_[at].round == round_) return entries_[slots_[at].index];
  CHECK_LT(entries_.size() + 1, kSlots);
  slots_[at] = {round_, static_cast<uint16_t>(entries_.size())};
  entries_.push_back({.token = token});
  return entries_.back();
}

TransitionPrior::TransitionPrior(const Options& options)
    : options_(options),
      uniform_(1.0f / static_cast<float>(options.vocabulary)),
      request_(options.request ? kRequestContexts : 0) {
  CHECK_GE(options.vocabulary, 1);
  CHECK(options.table == nullptr || options.table->vocabulary() == options.vocabulary);
}

void TransitionPrior::CountContinuation(ContinuationCounts* counts, int max_length,
                                        TokenId next) const {
  for (int length = 1; length <= std::min(max_length, tail_.size); ++length) {
    counts->Add(absl::MakeConstSpan(tail_.tokens.data(), length), next);
  }
}

void TransitionPrior::AppendPrompt(absl::Span<const TokenId> prompt, const std::string& salt,
                                   PromptCounts& counts) {
  PromptCounts::Shared shared;
  if (options_.request) shared = counts.Add(prompt, salt);
  if (shared.counts != nullptr) request_ = *shared.counts;
  for (size_t i = 0; i < prompt.size(); ++i) {
    Append(prompt[i], options_.request && i >= shared.counted);
    if (i + 1 == shared.keep) counts.Keep(prompt.subspan(0, shared.keep), salt, request_);
  }
}

void TransitionPrior::Append(TokenId token, bool counts) {
  if (token < 0 || token >= options_.vocabulary) {
    tail_ = {};
    return;
  }
  if (counts) CountContinuation(&request_, 3, token);
  if (options_.learned != nullptr) CountContinuation(options_.learned, 2, token);
  PushFront(tail_, token);
}

RecentTokens TransitionPrior::TokensBefore(const DraftTree& tree, NodeIndex node) const {
  RecentTokens recent;
  for (; node > 0 && recent.size < RecentTokens::kMaxSize; node = tree.parent(node)) {
    recent.tokens[recent.size++] = tree.token(node);
  }
  for (int i = 0; i < tail_.size && recent.size < RecentTokens::kMaxSize; ++i) {
    recent.tokens[recent.size++] = tail_.tokens[i];
  }
  return recent;
}

RecentTokens TransitionPrior::TokensBefore(absl::Span<const TokenId> following) const {
  RecentTokens recent = tail_;
  for (const TokenId token : following) PushFront(recent, token);
  return recent;
}

TokenGains& TransitionPrior::FindOrAddEntry(TokenId token, float rest, GainList* list) const {
  TokenGains& entry = list->FindOrAdd(token);
  if (entry.probability == 0) {
    entry.probability = Probability(token);
    entry.estimate = entry.probability * rest;
  }
  return entry;
}

float TransitionPrior::CollectTableGains(const RecentTokens& recent, GainList* list) const {
  if (options_.table == nullptr || recent.size < 1) return 1;
  const ContextGains one = options_.table->After(recent.tokens[0]);
  const ContextGains two =
      recent.size < 2 ? ContextGains() : options_.table->After(recent.tokens[1], recent.tokens[0]);
  for (const TransitionGain& known : one.continuations) {
    TokenGains& entry = list->FindOrAdd(known.token);
    entry.probability = known.probability;
    entry.estimate = known.estimate * two.rest;
    entry.gains[static_cast<int>(PriorSource::kTableOne)] = known.gain;
  }
  for (const TransitionGain& known : two.continuations) {
    TokenGains& entry = list->FindOrAdd(known.token);
    entry.probability = known.probability;
    entry.estimate = known.estimate;
    entry.gains[static_cast<int>(PriorSource::kTableTwo)] = known.gain;
  }
  return one.rest * two.rest;
}

Continuations TransitionPrior::ContinuationsIn(PriorSource source,
                                               const RecentTokens& recent) const {
  const ContinuationCounts* request = options_.request ? &request_ : nullptr;
  const auto after = [&recent](const ContinuationCounts* counts, int length) -> Continuations {
    if (counts == nullptr || recent.size < length) return {};
    return counts->After(absl::MakeConstSpan(recent.tokens.data(), length));
  };
  switch (source) {
    case PriorSource::kLearnedOne:
      return after(options_.learned, 1);
    case PriorSource::kLearnedTwo:
      return after(options_.learned, 2);
    case PriorSource::kRequestOne:
      return after(request, 1);
    case PriorSource::kRequestTwo:
      return after(request, 2);
    case PriorSource::kRequestThree:
      return after(request, 3);
    default:
      return {};
  }
}

void TransitionPrior::CollectGains(const RecentTokens& recent, GainList* list) const {
  list->Clear();
  const float rest = CollectTableGains(recent, list);
  std::array<float, kPriorSources> totals;
  bool any = false;
  for (int source = kFirstCounted; source < kPriorSources; ++source) {
    const Continuations known = ContinuationsIn(static_cast<PriorSource>(source), recent);
    totals[source] = known.total;
    any = any || known.total > 0;
    for (size_t i = 0; i < known.tokens.size(); ++i) {
      // Stores the count; the loop below turns it into a gain.
      FindOrAddEntry(known.tokens[i], rest, list).gains[source] = known.counts[i];
    }
  }
  if (!any) return;
  for (TokenGains& entry : list->entries()) {
    for (int source = kFirstCounted; source < kPriorSources; ++source) {
      if (totals[source] == 0) continue;
      const float count = entry.gains[source];
      const float smoothed = kSmoothing[source] * entry.estimate;
      if (count > 0) entry.gains[source] = std::log(1 + count / smoothed);
      entry.estimate = (count + smoothed) / (totals[source] + kSmoothing[source]);
    }
  }
}

}  // namespace bastion
