#include "orchestrator/prior/transition_prior.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace bastion {
namespace {

// k_s of what is counted while text comes in: large for other requests' text.
constexpr int kFirstCounted = static_cast<int>(EvidenceSource::kLearnedOne);
constexpr std::array<float, kEvidenceSources> kSmoothing = {
    TransitionGains::kSmoothing, TransitionGains::kSmoothing, 20, 20, 1, 1, 1};

void Push(RecentTokens& recent, TokenId token) {
  std::copy_backward(recent.tokens.begin(), recent.tokens.end() - 1, recent.tokens.end());
  recent.tokens[0] = token;
  recent.size = std::min(recent.size + 1, RecentTokens::kMost);
}

}  // namespace

void EvidenceList::Clear() {
  found_.clear();
  ++round_;
}

size_t EvidenceList::SlotOf(TokenId token) const {
  size_t at = (static_cast<uint32_t>(token) * 0x9E3779B1u) >> 24;
  while (slots_[at].round == round_ && found_[slots_[at].index].token != token) {
    at = (at + 1) % kSlots;
  }
  return at;
}

const TokenEvidence* EvidenceList::Find(TokenId token) const {
  const Slot& slot = slots_[SlotOf(token)];
  return slot.round == round_ ? &found_[slot.index] : nullptr;
}

TokenEvidence& EvidenceList::At(TokenId token) {
  const size_t at = SlotOf(token);
  if (slots_[at].round == round_) return found_[slots_[at].index];
  CHECK_LT(found_.size() + 1, kSlots);
  slots_[at] = {round_, static_cast<uint16_t>(found_.size())};
  found_.push_back({.token = token});
  return found_.back();
}

TransitionPrior::TransitionPrior(const Options& options)
    : options_(options),
      uniform_(1.0f / static_cast<float>(options.vocabulary)),
      request_(options.request ? kRequestContexts : 0) {
  CHECK_GE(options.vocabulary, 1);
  CHECK(options.table == nullptr || options.table->vocabulary() == options.vocabulary);
}

void TransitionPrior::Count(ContinuationCounts* counts, int longest, TokenId next) const {
  for (int length = 1; length <= std::min(longest, tail_.size); ++length) {
    counts->Add(absl::MakeConstSpan(tail_.tokens.data(), length), next);
  }
}

void TransitionPrior::Append(TokenId token) {
  if (token < 0 || token >= options_.vocabulary) {
    tail_ = {};
    return;
  }
  if (options_.request) Count(&request_, 3, token);
  if (options_.learned != nullptr) Count(options_.learned, 2, token);
  Push(tail_, token);
}

RecentTokens TransitionPrior::Before(const DraftTree& tree, NodeIndex node) const {
  RecentTokens recent;
  for (; node > 0 && recent.size < RecentTokens::kMost; node = tree.parent(node)) {
    recent.tokens[recent.size++] = tree.token(node);
  }
  for (int i = 0; i < tail_.size && recent.size < RecentTokens::kMost; ++i) {
    recent.tokens[recent.size++] = tail_.tokens[i];
  }
  return recent;
}

RecentTokens TransitionPrior::Before(absl::Span<const TokenId> following) const {
  RecentTokens recent = tail_;
  for (const TokenId token : following) Push(recent, token);
  return recent;
}

TokenEvidence& TransitionPrior::EntryOf(TokenId token, float rest, EvidenceList* evidence) const {
  TokenEvidence& entry = evidence->At(token);
  if (entry.probability == 0) {
    entry.probability = Probability(token);
    entry.share = entry.probability * rest;
  }
  return entry;
}

float TransitionPrior::GatherTable(const RecentTokens& recent, EvidenceList* evidence) const {
  if (options_.table == nullptr || recent.size < 1) return 1;
  const ContextGains one = options_.table->After(recent.tokens[0]);
  const ContextGains two =
      recent.size < 2 ? ContextGains() : options_.table->After(recent.tokens[1], recent.tokens[0]);
  for (const TransitionGain& known : one.continuations) {
    TokenEvidence& entry = evidence->At(known.token);
    entry.probability = known.probability;
    entry.share = known.share * two.rest;
    entry.gains[static_cast<int>(EvidenceSource::kTableOne)] = known.gain;
  }
  for (const TransitionGain& known : two.continuations) {
    TokenEvidence& entry = evidence->At(known.token);
    entry.probability = known.probability;
    entry.share = known.share;
    entry.gains[static_cast<int>(EvidenceSource::kTableTwo)] = known.gain;
  }
  return one.rest * two.rest;
}

Continuations TransitionPrior::Counted(EvidenceSource source, const RecentTokens& recent) const {
  const ContinuationCounts* request = options_.request ? &request_ : nullptr;
  const auto after = [&recent](const ContinuationCounts* counts, int length) -> Continuations {
    if (counts == nullptr || recent.size < length) return {};
    return counts->After(absl::MakeConstSpan(recent.tokens.data(), length));
  };
  switch (source) {
    case EvidenceSource::kLearnedOne:
      return after(options_.learned, 1);
    case EvidenceSource::kLearnedTwo:
      return after(options_.learned, 2);
    case EvidenceSource::kRequestOne:
      return after(request, 1);
    case EvidenceSource::kRequestTwo:
      return after(request, 2);
    case EvidenceSource::kRequestThree:
      return after(request, 3);
    default:
      return {};
  }
}

void TransitionPrior::Gather(const RecentTokens& recent, EvidenceList* evidence) const {
  evidence->Clear();
  const float rest = GatherTable(recent, evidence);
  std::array<float, kEvidenceSources> totals;
  bool any = false;
  for (int source = kFirstCounted; source < kEvidenceSources; ++source) {
    const Continuations known = Counted(static_cast<EvidenceSource>(source), recent);
    totals[source] = known.total;
    any = any || known.total > 0;
    for (size_t i = 0; i < known.tokens.size(); ++i) {
      EntryOf(known.tokens[i], rest, evidence).gains[source] = known.counts[i];
    }
  }
  if (!any) return;
  for (TokenEvidence& entry : evidence->found()) {
    for (int source = kFirstCounted; source < kEvidenceSources; ++source) {
      if (totals[source] == 0) continue;
      const float count = entry.gains[source];
      const float smoothed = kSmoothing[source] * entry.share;
      if (count > 0) entry.gains[source] = std::log(1 + count / smoothed);
      entry.share = (count + smoothed) / (totals[source] + kSmoothing[source]);
    }
  }
}

}  // namespace bastion
