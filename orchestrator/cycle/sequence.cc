#include "orchestrator/cycle/sequence.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "common/base/check.h"

namespace bastion {
namespace {

// Penalties edit a logit per row and distinct token of the text. The product is limited per cycle,
// so that one request with a long text and a large tree does not delay all others.
constexpr int kPenalizedLogits = 1 << 18;

}  // namespace

DecodeSequence::DecodeSequence(DecodeRequest request, std::unique_ptr<RequestPolicy> policy)
    : request_(std::move(request)),
      policy_(std::move(policy)),
      root_(request_.prompt.back()),
      constraint_(request_.constraint) {
  CHECK_GT(request_.max_tokens, 0);
  policy_->set_weight(request_.weight);
  policy_->ObservePrompt(request_.prompt, request_.cache_salt);
}

absl::Span<const TokenId> DecodeSequence::FindForced() {
  if (!policy_->policy().speculates() || done()) return {};
  forced_ = constraint_.FindForced(output_);
  return forced_;
}

void DecodeSequence::Constrain(GrownTree* grown) {
  if (!done()) {
    absl::Status constrained = constraint_.Constrain(output_, request_.stop_tokens, grown);
    if (!constrained.ok()) Fail(std::move(constrained));
  }
  if (!status_.ok()) grown->tree.Truncate(0);
}

int DecodeSequence::prompt_left() const {
  // The root is the last token so far.
  const auto tokens = static_cast<Position>(request_.prompt.size() + output_.size());
  return std::max(0, tokens - 1 - committed_);
}

PrefixItem DecodeSequence::Prefix() const {
  return {request_.id, NextPrefill(prompt_left()).tokens, request_.cache_salt};
}

void DecodeSequence::RecordReuse(int tokens) {
  committed_ = tokens;
  if (!reused_.has_value()) reused_ = tokens;
}

PrefillItem DecodeSequence::NextPrefill(int max_tokens) const {
  PrefillItem item = {request_.id, committed_, {}};
  const Position end = committed_ + std::clamp(max_tokens, 0, prompt_left());
  item.tokens.reserve(end - committed_);
  for (Position at = committed_; at < end; ++at) item.tokens.push_back(TokenAt(at));
  return item;
}

void DecodeSequence::RecordPrefill(int tokens, absl::Duration spent) {
  committed_ += tokens;
  prefill_time_ += spent;
  starvation_ = absl::OkStatus();
}

void DecodeSequence::Preempt() {
  ++request_.id.epoch;
  committed_ = 0;
  drafter_position_ = 0;
  starvation_ = absl::OkStatus();
  constraint_.Reset();
  if (output_.size() > whole_output_) {
    TruncateOutput(whole_output_);
    reason_ = FinishReason::kNone;
  }
  root_ = TokenAt(static_cast<Position>(request_.prompt.size() + output_.size()) - 1);
}

TreeLimits DecodeSequence::Limits(const TargetInfo& target) const {
  const int tokens_left = request_.max_tokens - static_cast<int>(output_.size());
  // The planner bounds its own trees by what they cost everybody.
  int node_cap = policy_->planned() ? kNoNodeCap : request_.node_cap.For(target);
  if (request_.sampling.penalizes()) {
    node_cap = std::min(node_cap, std::max(1, kPenalizedLogits / std::max(1, committed_)));
  }
  if (const auto max_nodes = constraint_.max_nodes()) node_cap = std::min(node_cap, *max_nodes);
  return LimitsFor(target, committed_, tokens_left, request_.max_nodes, node_cap);
}

TokenId DecodeSequence::TokenAt(Position position) const {
  const auto prompt = static_cast<Position>(request_.prompt.size());
  return position < prompt ? request_.prompt[position] : output_[position - prompt];
}

Frontier DecodeSequence::NextFrontier(const DraftRound& round) const {
  Frontier frontier;
  frontier.sequence = request_.id;
  frontier.committed = committed_;
  frontier.root = root_;
  frontier.new_tokens.reserve(committed_ - drafter_position_);
  for (Position at = drafter_position_; at < committed_; ++at) {
    frontier.new_tokens.push_back(TokenAt(at));
  }
  frontier.cache_salt = request_.cache_salt;
  frontier.paths = round.paths;
  frontier.candidates = round.candidates;
  frontier.sampling = static_cast<const ChoiceParams&>(request_.sampling);
  frontier.coupled = policy_->policy().coupled();
  return frontier;
}

void DecodeSequence::Emit(TokenId token) {
  if (done()) return;
  status_ = constraint_.EnsureState(output_);
  if (done()) return;
  output_.push_back(token);
  if (request_.stop_tokens.contains(token)) {
    reason_ = FinishReason::kStopToken;
    return;
  }
  status_ = constraint_.Push(token);
  if (status_.ok() && constraint_.complete()) reason_ = FinishReason::kComplete;
  if (done()) return;
  if (static_cast<int>(output_.size()) >= request_.max_tokens) {
    reason_ = FinishReason::kLength;
  }
}

void DecodeSequence::StopAfter(size_t tokens, FinishReason reason) {
  reason_ = reason;
  cycles_.back().committed_length -= static_cast<int>(output_.size() - tokens);
  TruncateOutput(tokens);
}

void DecodeSequence::TruncateOutput(size_t tokens) {
  output_.resize(tokens);
  logprobs_.resize(std::min(logprobs_.size(), tokens));
  whole_output_ = tokens;
}

void DecodeSequence::RecordForced(absl::Span<const TokenId> emitted) {
  const size_t known = std::min(emitted.size(), forced_.size());
  size_t same = 0;
  while (same < known && emitted[same] == forced_[same]) ++same;
  forced_outcome_ = {static_cast<int>(same), same < known ? 1 : 0};
  forced_.clear();
}

void DecodeSequence::Commit(const GrownTree& grown, const Acceptance& acceptance,
                            CycleRecord record) {
  const size_t before = output_.size();
  for (const NodeIndex node : acceptance.path) Emit(grown.tree.token(node));
  Emit(acceptance.next);
  RecordForced(absl::MakeConstSpan(output_).subspan(before));
  const auto& logprobs = acceptance.logprobs;
  const size_t emitted = std::min(logprobs.size(), output_.size() - before);
  logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.begin() + emitted);
  record.context = committed_;
  committed_ += acceptance.committed_length();
  root_ = acceptance.next;
  starvation_ = absl::OkStatus();
  record.nodes = grown.tree.nodes();
  record.drafted = grown.drafted;
  record.reason = grown.reason;
  record.accepted = static_cast<int>(acceptance.path.size());
  record.expected_length = grown.tree.ExpectedCommittedLength();
  record.committed_length = static_cast<int>(output_.size() - before);
  const KeptTrees kept = request_.kept_trees;
  if (kept != KeptTrees::kAll && !cycles_.empty()) cycles_.back().tree.reset();
  if (kept != KeptTrees::kNone || std::exchange(keeps_next_tree_, false)) {
    record.tree = std::make_shared<VerifiedTree>(
        VerifiedTree{grown.tree, policy_->SourcesOf(grown.tree), acceptance.path, acceptance.next});
    if (kept == KeptTrees::kLast) record.totals = TotalsOf(*record.tree);
  }
  policy_->Observe(grown, acceptance);
  cycles_.push_back(std::move(record));
  whole_output_ = output_.size();
}

}  // namespace bastion
