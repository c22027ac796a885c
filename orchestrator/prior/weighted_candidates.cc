#include "orchestrator/prior/weighted_candidates.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>

namespace bastion {
namespace {

// The part of a candidate's score that comes from the prior.
float WeightedGain(const TokenGains& entry, const CandidateTerms& weights) {
  float gain = 0;
  for (int source = 0; source < kPriorSources; ++source) {
    gain += weights[kFirstGainTerm + source] * entry.gains[source];
  }
  return gain;
}

// Smaller log-probabilities are raised to this value, and pair terms are limited to this distance
// from 0, so that sums stay in the range of a float.
constexpr float kMinLogProb = -50;
constexpr float kMaxPairTerm = 40;

// `entry` may be null: then all gains are 0.
CandidateTerms TermsOf(float draft, bool outside, const TokenGains* entry, float pair = 0) {
  CandidateTerms terms{};
  terms[kPairTerm] = pair;
  terms[kDraftTerm] = std::max(draft, kMinLogProb);
  terms[kOutsideTerm] = outside ? 1 : 0;
  if (entry != nullptr) {
    std::copy(entry->gains.begin(), entry->gains.end(), terms.begin() + kFirstGainTerm);
  }
  return terms;
}

// The number of candidates with non-zero probability. The others are at the end of the list.
int PossibleCandidates(const CycleDraft::Place& place) {
  int possible = place.marginals->candidates;
  while (possible > 0 && std::isinf(place.marginals->log_prob(place.position, possible - 1))) {
    --possible;
  }
  return possible;
}

// kPairTerm of the first `count` candidates. Empty if `place` has no pair scores.
std::vector<float> PairTerms(const CycleDraft::Place& place, int count) {
  if (place.pair_row == CycleDraft::kNoPairRow) return {};
  const absl::Span<const float> row = place.marginals->pair_row(place.position, place.pair_row);
  double mass = 0, sum = 0;
  for (int rank = 0; rank < count; ++rank) {
    const float log_prob = std::max(place.marginals->log_prob(place.position, rank), kMinLogProb);
    const double share = std::exp(log_prob);
    mass += share;
    sum += share * double{row[rank]};
  }
  const double mean = sum / mass;
  std::vector<float> terms(row.begin(), row.begin() + count);
  for (float& term : terms) {
    term = std::clamp(static_cast<float>(double{term} - mean), -kMaxPairTerm, kMaxPairTerm);
  }
  return terms;
}

size_t SlotOf(TokenId token, size_t slots) {
  return ((static_cast<uint32_t>(token) * 0x9E3779B1u) >> 16) & (slots - 1);
}

// The mass of the tokens that the prior has not seen in this context.
float UnseenMass(const GainList& gains) {
  float seen = 0;
  for (const TokenGains& entry : gains.entries()) seen += entry.probability;
  return std::max(1e-6f, 1 - seen);
}

// One choice of the target: the terms of all candidates, and the index of the chosen one.
struct Choice {
  std::vector<CandidateTerms> candidates;
  std::optional<size_t> chosen;

  void Add(TokenId token, TokenId chosen_token, const CandidateTerms& terms) {
    if (token == chosen_token) chosen = candidates.size();
    candidates.push_back(terms);
  }
};

Choice ChoiceAt(const CycleDraft::Place& place, const GainList& gains, TokenId chosen_token) {
  Choice choice;
  const Marginals& marginals = *place.marginals;
  const int position = place.position;
  const int possible = PossibleCandidates(place);
  if (possible == 0) return choice;
  // A token that only the prior proposes gets the log-probability of the drafter's last candidate.
  const float lowest = marginals.log_prob(position, possible - 1);
  const std::vector<float> pairs = PairTerms(place, possible);
  choice.candidates.reserve(possible + gains.entries().size());
  std::vector<bool> drafted(gains.entries().size(), false);  // By entry of `gains`.
  for (int rank = 0; rank < possible; ++rank) {
    const TokenId token = marginals.token(position, rank);
    const TokenGains* entry = gains.Find(token);
    if (entry != nullptr) drafted[entry - gains.entries().data()] = true;
    choice.Add(
        token, chosen_token,
        TermsOf(marginals.log_prob(position, rank), false, entry, pairs.empty() ? 0 : pairs[rank]));
  }
  for (size_t i = 0; i < drafted.size(); ++i) {
    const TokenGains& entry = gains.entries()[i];
    if (!drafted[i]) choice.Add(entry.token, chosen_token, TermsOf(lowest, true, &entry));
  }
  return choice;
}

}  // namespace

const CandidateList* CandidateCache::Find(const Key& key) const {
  const auto found = lists_.find(key);
  return found == lists_.end() ? nullptr : &found->second;
}

CandidateList CandidateCache::Insert(const Key& key, int bucket,
                                     absl::Span<const ScoredToken> ranked,
                                     std::vector<ScoredToken>& unsorted, float shift) {
  SortBestFirst(unsorted);
  merged_.clear();
  size_t next_ranked = 0, next_unsorted = 0;
  while (static_cast<int>(merged_.size()) < max_children_ &&
         (next_ranked < ranked.size() || next_unsorted < unsorted.size())) {
    const bool take_unsorted = next_unsorted < unsorted.size() &&
                               (next_ranked == ranked.size() ||
                                unsorted[next_unsorted].log_score > ranked[next_ranked].log_score);
    const ScoredToken& best = take_unsorted ? unsorted[next_unsorted++] : ranked[next_ranked++];
    merged_.push_back({best.token, std::min(0.0f, best.log_score + shift)});
  }
  CandidateList& list = lists_[key];
  list = arena_.Store(merged_);
  list.bucket = bucket;
  return list;
}

WeightedCandidates::WeightedCandidates(CycleDraft& draft, int depth, const TransitionPrior* prior,
                                       const CandidateWeights* weights, int max_children)
    : draft_(draft),
      max_depth_(std::clamp(depth, 0, draft.max_depth())),
      prior_(prior),
      weights_(weights),
      draft_scores_(draft.places()),
      cache_(max_children) {}

const WeightedCandidates::DraftScores& WeightedCandidates::DraftScoresAt(
    const CycleDraft::Place& place, int depth) {
  DraftScores& scores = place.pair_row == CycleDraft::kNoPairRow
                            ? draft_scores_[place.index]
                            : pair_scores_[{place.index, place.pair_row}];
  if (scores.ready) return scores;
  scores.ready = true;
  const int possible = PossibleCandidates(place);
  if (possible == 0) return scores;
  const CandidateTerms& weights = weights_->At(depth + 1);
  const std::vector<float> pairs = PairTerms(place, possible);
  scores.ranked.reserve(possible);
  double mass = 0;
  for (int rank = 0; rank < possible; ++rank) {
    const TokenId token = place.marginals->token(place.position, rank);
    const float log_prob = std::max(place.marginals->log_prob(place.position, rank), kMinLogProb);
    scores.lowest = weights[kDraftTerm] * log_prob;
    float score = scores.lowest;
    if (!pairs.empty()) score += weights[kPairTerm] * pairs[rank];
    scores.ranked.push_back({token, score});
    scores.sum += std::exp(score);
    mass += std::exp(log_prob);
  }
  scores.log_mass = static_cast<float>(std::log(std::min(mass, 1.0)));
  if (!pairs.empty()) SortBestFirst(scores.ranked);
  if (prior_ != nullptr) scores.FillSlots();
  return scores;
}

void WeightedCandidates::DraftScores::FillSlots() {
  const size_t size = std::bit_ceil(2 * ranked.size());
  slots.assign(size, 0);
  for (size_t i = 0; i < ranked.size(); ++i) {
    size_t slot = SlotOf(ranked[i].token, size);
    while (slots[slot] != 0) slot = (slot + 1) & (size - 1);
    slots[slot] = static_cast<uint16_t>(i + 1);
  }
}

int WeightedCandidates::DraftScores::RankOf(TokenId token) const {
  for (size_t slot = SlotOf(token, slots.size());; slot = (slot + 1) & (slots.size() - 1)) {
    if (slots[slot] == 0) return -1;
    if (ranked[slots[slot] - 1].token == token) return slots[slot] - 1;
  }
}

CandidateList WeightedCandidates::After(const DraftTree& tree, NodeIndex node) {
  if (tree.depth(node) >= max_depth_) return {};
  return ListAt(draft_.After(tree, node), tree, node);
}

CandidateList WeightedCandidates::InBlock(const DraftTree& tree, NodeIndex start, NodeIndex node) {
  if (tree.depth(node) >= max_depth_) return {};
  return ListAt(draft_.InBlock(tree, start, node), tree, node);
}

CandidateList WeightedCandidates::ListAt(const CycleDraft::Place& place, const DraftTree& tree,
                                         NodeIndex node) {
  if (!place.known()) return {};
  CandidateCache::Key key = {place.index, RecentTokens()};
  if (prior_ != nullptr) {
    key.second = prior_->TokensBefore(tree, node);
  } else if (place.pair_row != CycleDraft::kNoPairRow) {
    key.second = {{tree.token(node)}, 1};
  }
  if (const CandidateList* known = cache_.Find(key)) return *known;
  const int depth = tree.depth(node);
  const DraftScores& draft = DraftScoresAt(place, depth);
  if (draft.ranked.empty()) return {};
  const CandidateTerms& weights = weights_->At(depth + 1);
  rescored_.clear();
  unchanged_.assign(draft.ranked.begin(), draft.ranked.end());
  double sum = draft.sum;
  if (prior_ != nullptr) {
    constexpr TokenId kRemoved = kNoToken;
    prior_->CollectGains(key.second, &gains_);
    // The score, before gains, of a token that only the prior proposes.
    const float outside = draft.lowest + weights[kOutsideTerm];
    for (const TokenGains& entry : gains_.entries()) {
      const int rank = draft.RankOf(entry.token);
      const float before = rank < 0 ? outside : draft.ranked[rank].log_score;
      const float score = before + WeightedGain(entry, weights);
      rescored_.push_back({entry.token, score});
      sum += std::exp(static_cast<double>(score));
      if (rank < 0) continue;
      sum -= std::exp(static_cast<double>(before));
      unchanged_[rank].token = kRemoved;
    }
    const auto removed = [](const ScoredToken& scored) { return scored.token == kRemoved; };
    unchanged_.erase(std::remove_if(unchanged_.begin(), unchanged_.end(), removed),
                     unchanged_.end());
  }
  const double smallest = std::numeric_limits<float>::min();
  return cache_.Insert(key, place.marginals->bucket(place.position), unchanged_, rescored_,
                       draft.log_mass - static_cast<float>(std::log(std::max(sum, smallest))));
}

void WeightedCandidates::UpdateWeights(const CycleDraft& draft, const TransitionPrior* prior,
                                       absl::Span<const TokenId> chosen,
                                       CandidateWeights* weights) {
  GainList gains;
  for (size_t i = 0; i < chosen.size(); ++i) {
    const CycleDraft::Place place = draft.Find(chosen.subspan(0, i));
    if (!place.known()) break;
    if (prior != nullptr) prior->CollectGains(prior->TokensBefore(chosen.subspan(0, i)), &gains);
    const Choice choice = ChoiceAt(place, gains, chosen[i]);
    if (choice.chosen.has_value()) {
      weights->Update(static_cast<int>(i) + 1, choice.candidates, *choice.chosen);
    }
  }
}

CandidateList PriorCandidates::After(const DraftTree& tree, NodeIndex node) {
  if (tree.depth(node) >= max_depth_) return {};
  const CandidateCache::Key key = {tree.depth(node), prior_->TokensBefore(tree, node)};
  if (const CandidateList* known = cache_.Find(key)) return *known;
  const CandidateTerms& weights = weights_->At(tree.depth(node) + 1);
  prior_->CollectGains(key.second, &gains_);
  if (gains_.entries().empty()) return {};
  rescored_.clear();
  double sum = std::pow(UnseenMass(gains_), weights[kDraftTerm]);
  for (const TokenGains& entry : gains_.entries()) {
    const float score =
        weights[kDraftTerm] * std::log(entry.probability) + WeightedGain(entry, weights);
    rescored_.push_back({entry.token, score});
    sum += std::exp(static_cast<double>(score));
  }
  return cache_.Insert(key, kNoBucket, {}, rescored_, -static_cast<float>(std::log(sum)));
}

void PriorCandidates::UpdateWeights(const TransitionPrior& prior, absl::Span<const TokenId> chosen,
                                    CandidateWeights* weights) {
  GainList gains;
  for (size_t i = 0; i < chosen.size(); ++i) {
    prior.CollectGains(prior.TokensBefore(chosen.subspan(0, i)), &gains);
    if (gains.entries().empty()) continue;
    // Candidate 0 represents all unseen tokens. It is the choice unless a listed token was chosen.
    Choice choice;
    choice.candidates.push_back(TermsOf(std::log(UnseenMass(gains)), false, nullptr));
    choice.chosen = 0;
    for (const TokenGains& entry : gains.entries()) {
      choice.Add(entry.token, chosen[i], TermsOf(std::log(entry.probability), false, &entry));
    }
    weights->Update(static_cast<int>(i) + 1, choice.candidates, *choice.chosen);
  }
}

}  // namespace bastion
