#include "orchestrator/prior/weighted_candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

namespace bastion {
namespace {

float GainsOf(const TokenEvidence& evidence, const EvidenceTerms& weights) {
  float gain = 0;
  for (int source = 0; source < kEvidenceSources; ++source) {
    gain += weights[kFirstGainTerm + source] * evidence.gains[source];
  }
  return gain;
}

// A candidate with less is as good as impossible; so no sum runs out of range.
constexpr float kLeastLogProb = -50;

EvidenceTerms TermsOf(float draft, bool outside, const TokenEvidence* evidence) {
  EvidenceTerms terms{};
  terms[kDraftTerm] = std::max(draft, kLeastLogProb);
  terms[kOutsideTerm] = outside ? 1 : 0;
  if (evidence != nullptr) {
    std::copy(evidence->gains.begin(), evidence->gains.end(), terms.begin() + kFirstGainTerm);
  }
  return terms;
}

// Candidates of zero probability are at the end.
int PossibleCandidates(const Marginals& marginals, int position) {
  int possible = marginals.candidates;
  while (possible > 0 && std::isinf(marginals.log_prob(position, possible - 1))) --possible;
  return possible;
}

size_t SlotOf(TokenId token, size_t slots) {
  return ((static_cast<uint32_t>(token) * 0x9E3779B1u) >> 16) & (slots - 1);
}

// What is left for tokens that the prior has not seen here.
float UnseenShare(const EvidenceList& evidence) {
  float seen = 0;
  for (const TokenEvidence& entry : evidence.found()) seen += entry.probability;
  return std::max(1e-6f, 1 - seen);
}

// The terms of all candidates of a position, and which of them was picked.
struct Lesson {
  std::vector<EvidenceTerms> candidates;
  std::optional<size_t> picked;

  void Add(TokenId token, TokenId right, const EvidenceTerms& terms) {
    if (token == right) picked = candidates.size();
    candidates.push_back(terms);
  }
};

Lesson LessonOf(const Marginals& marginals, int position, const EvidenceList& evidence,
                TokenId right) {
  Lesson lesson;
  const int possible = PossibleCandidates(marginals, position);
  if (possible == 0) return lesson;
  // What the prior proposes besides is at most worth the drafter's last candidate.
  const float least = marginals.log_prob(position, possible - 1);
  lesson.candidates.reserve(possible + evidence.found().size());
  std::vector<bool> listed(evidence.found().size(), false);  // By the drafter.
  for (int rank = 0; rank < possible; ++rank) {
    const TokenId token = marginals.token(position, rank);
    const TokenEvidence* entry = evidence.Find(token);
    if (entry != nullptr) listed[entry - evidence.found().data()] = true;
    lesson.Add(token, right, TermsOf(marginals.log_prob(position, rank), false, entry));
  }
  for (size_t i = 0; i < listed.size(); ++i) {
    const TokenEvidence& entry = evidence.found()[i];
    if (!listed[i]) lesson.Add(entry.token, right, TermsOf(least, true, &entry));
  }
  return lesson;
}

}  // namespace

RowStore::Row RowStore::NewRow() {
  if (free_ == 0) {
    const size_t size = static_cast<size_t>(kRowsPerChunk) * most_children_;
    chunks_.push_back({std::make_unique_for_overwrite<TokenId[]>(size),
                       std::make_unique_for_overwrite<float[]>(size)});
    free_ = kRowsPerChunk;
  }
  const size_t begin = static_cast<size_t>(--free_) * most_children_;
  return {&chunks_.back().tokens[begin], &chunks_.back().log_scores[begin]};
}

const CandidateRow* RowStore::Find(const Key& key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : &found->second;
}

CandidateRow RowStore::Merge(const Key& key, absl::Span<const Scored> ranked,
                             std::vector<Scored>& loose, float shift) {
  std::sort(loose.begin(), loose.end(), [](const Scored& a, const Scored& b) {
    return a.log_score != b.log_score ? a.log_score > b.log_score : a.token < b.token;
  });
  const Row row = NewRow();
  int size = 0;
  size_t next_ranked = 0, next_loose = 0;
  while (size < most_children_ && (next_ranked < ranked.size() || next_loose < loose.size())) {
    const bool take_loose =
        next_loose < loose.size() && (next_ranked == ranked.size() ||
                                      loose[next_loose].log_score > ranked[next_ranked].log_score);
    const Scored& best = take_loose ? loose[next_loose++] : ranked[next_ranked++];
    row.tokens[size] = best.token;
    row.log_scores[size] = std::min(0.0f, best.log_score + shift);
    ++size;
  }
  return known_[key] = {row.tokens, row.log_scores, size};
}

EvidenceRows::EvidenceRows(const Marginals& marginals, int depth, const TransitionPrior* prior,
                           const EvidenceWeights* weights, int most_children)
    : marginals_(marginals),
      positions_(std::clamp(depth, 0, marginals.positions)),
      prior_(prior),
      weights_(weights),
      bases_(positions_),
      rows_(most_children) {}

const EvidenceRows::Base& EvidenceRows::BaseOf(int position) const {
  Base& base = bases_[position];
  if (base.made) return base;
  base.made = true;
  const int possible = PossibleCandidates(marginals_, position);
  if (possible == 0) return base;
  const float weight = weights_->At(position + 1)[kDraftTerm];
  const size_t slots = std::bit_ceil(2 * static_cast<size_t>(possible));
  if (prior_ != nullptr) base.slots.assign(slots, 0);
  base.ranked.reserve(possible);
  double mass = 0;
  for (int rank = 0; rank < possible; ++rank) {
    const TokenId token = marginals_.token(position, rank);
    const float log_prob = std::max(marginals_.log_prob(position, rank), kLeastLogProb);
    base.ranked.push_back({token, weight * log_prob});
    base.sum += std::exp(weight * log_prob);
    mass += std::exp(log_prob);
    if (prior_ == nullptr) continue;
    size_t slot = SlotOf(token, slots);
    while (base.slots[slot] != 0) slot = (slot + 1) & (slots - 1);
    base.slots[slot] = static_cast<uint16_t>(rank + 1);
  }
  base.log_mass = static_cast<float>(std::log(std::min(mass, 1.0)));
  return base;
}

int EvidenceRows::Base::RankOf(TokenId token) const {
  for (size_t slot = SlotOf(token, slots.size());; slot = (slot + 1) & (slots.size() - 1)) {
    if (slots[slot] == 0) return -1;
    if (ranked[slots[slot] - 1].token == token) return slots[slot] - 1;
  }
}

CandidateRow EvidenceRows::After(const DraftTree& tree, NodeIndex node) const {
  const int position = tree.depth(node);
  if (position >= positions_) return {};
  const RowStore::Key key = {position,
                             prior_ == nullptr ? RecentTokens() : prior_->Before(tree, node)};
  if (const CandidateRow* known = rows_.Find(key)) return *known;
  const Base& base = BaseOf(position);
  if (base.ranked.empty()) return {};
  const EvidenceTerms& weights = weights_->At(position + 1);
  loose_.clear();
  rest_.assign(base.ranked.begin(), base.ranked.end());
  double sum = base.sum;
  if (prior_ != nullptr) {
    constexpr TokenId kTaken = kNoToken;
    prior_->Gather(key.second, &evidence_);
    const float floor = base.ranked.back().log_score + weights[kOutsideTerm];
    for (const TokenEvidence& entry : evidence_.found()) {
      const int rank = base.RankOf(entry.token);
      const float before = rank < 0 ? floor : base.ranked[rank].log_score;
      const float score = before + GainsOf(entry, weights);
      loose_.push_back({entry.token, score});
      sum += std::exp(static_cast<double>(score));
      if (rank < 0) continue;
      sum -= std::exp(static_cast<double>(before));
      rest_[rank].token = kTaken;
    }
    const auto taken = [](const RowStore::Scored& one) { return one.token == kTaken; };
    rest_.erase(std::remove_if(rest_.begin(), rest_.end(), taken), rest_.end());
  }
  const double least = std::numeric_limits<float>::min();
  return rows_.Merge(key, rest_, loose_,
                     base.log_mass - static_cast<float>(std::log(std::max(sum, least))));
}

void EvidenceRows::Learn(const Marginals& marginals, const TransitionPrior* prior,
                         absl::Span<const TokenId> settled, EvidenceWeights* weights) {
  EvidenceList evidence;
  const int known = std::min(marginals.positions, static_cast<int>(settled.size()));
  for (int position = 0; position < known; ++position) {
    evidence.Clear();
    if (prior != nullptr) prior->Gather(prior->Before(settled.subspan(0, position)), &evidence);
    const Lesson lesson = LessonOf(marginals, position, evidence, settled[position]);
    if (lesson.picked.has_value()) weights->Learn(position + 1, lesson.candidates, *lesson.picked);
  }
}

CandidateRow PriorRows::After(const DraftTree& tree, NodeIndex node) const {
  if (tree.depth(node) >= positions_) return {};
  const RowStore::Key key = {tree.depth(node), prior_->Before(tree, node)};
  if (const CandidateRow* known = rows_.Find(key)) return *known;
  const EvidenceTerms& weights = weights_->At(tree.depth(node) + 1);
  prior_->Gather(key.second, &evidence_);
  if (evidence_.found().empty()) return {};
  loose_.clear();
  double sum = std::pow(UnseenShare(evidence_), weights[kDraftTerm]);
  for (const TokenEvidence& entry : evidence_.found()) {
    const float score = weights[kDraftTerm] * std::log(entry.probability) + GainsOf(entry, weights);
    loose_.push_back({entry.token, score});
    sum += std::exp(static_cast<double>(score));
  }
  return rows_.Merge(key, {}, loose_, -static_cast<float>(std::log(sum)));
}

void PriorRows::Learn(const TransitionPrior& prior, absl::Span<const TokenId> settled,
                      EvidenceWeights* weights) {
  EvidenceList evidence;
  for (size_t i = 0; i < settled.size(); ++i) {
    prior.Gather(prior.Before(settled.subspan(0, i)), &evidence);
    if (evidence.found().empty()) continue;
    Lesson lesson;
    lesson.candidates.push_back(TermsOf(std::log(UnseenShare(evidence)), false, nullptr));
    lesson.picked = 0;  // Unless it is one of those that follow.
    for (const TokenEvidence& entry : evidence.found()) {
      lesson.Add(entry.token, settled[i], TermsOf(std::log(entry.probability), false, &entry));
    }
    weights->Learn(static_cast<int>(i) + 1, lesson.candidates, *lesson.picked);
  }
}

}  // namespace bastion
