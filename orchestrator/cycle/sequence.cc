#include "orchestrator/cycle/sequence.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace bastion {

DecodeSequence::DecodeSequence(DecodeRequest request, std::unique_ptr<RequestPolicy> policy)
    : request_(std::move(request)), policy_(std::move(policy)), root_(request_.prompt.back()) {
  CHECK_GT(request_.max_tokens, 0);
  policy_->ObservePrompt(request_.prompt);
}

PrefillItem DecodeSequence::NextPrefill(int max_tokens) const {
  const int left = static_cast<int>(request_.prompt.size()) - 1 - committed_;
  PrefillItem item = {request_.id, committed_, {}};
  if (left <= 0) return item;
  const auto begin = request_.prompt.begin() + committed_;
  item.tokens.assign(begin, begin + std::min(left, max_tokens));
  return item;
}

TreeLimits DecodeSequence::Limits(const TargetInfo& target) const {
  const int tokens_left = request_.max_tokens - static_cast<int>(output_.size());
  return LimitsFor(target, committed_, tokens_left, request_.max_nodes);
}

TokenId DecodeSequence::TokenAt(Position position) const {
  const auto prompt = static_cast<Position>(request_.prompt.size());
  return position < prompt ? request_.prompt[position] : output_[position - prompt];
}

Frontier DecodeSequence::NextFrontier(int candidates) const {
  Frontier frontier;
  frontier.sequence = request_.id;
  frontier.committed = committed_;
  frontier.root = root_;
  frontier.new_tokens.reserve(committed_ - drafter_position_);
  for (Position at = drafter_position_; at < committed_; ++at) {
    frontier.new_tokens.push_back(TokenAt(at));
  }
  frontier.candidates = candidates;
  frontier.sampling = static_cast<const ChoiceParams&>(request_.sampling);
  frontier.coupled = policy_->policy().coupled();
  return frontier;
}

void DecodeSequence::Emit(TokenId token) {
  if (reason_ != FinishReason::kNone) return;
  output_.push_back(token);
  if (request_.stop_tokens.contains(token)) {
    reason_ = FinishReason::kStopToken;
  } else if (static_cast<int>(output_.size()) >= request_.max_tokens) {
    reason_ = FinishReason::kLength;
  }
}

void DecodeSequence::StopAfter(size_t tokens, FinishReason reason) {
  reason_ = reason;
  cycles_.back().committed_length -= static_cast<int>(output_.size() - tokens);
  output_.resize(tokens);
  logprobs_.resize(std::min(logprobs_.size(), tokens));
}

void DecodeSequence::Commit(const GrownTree& grown, const Acceptance& acceptance,
                            CycleRecord record) {
  const size_t before = output_.size();
  for (const NodeIndex node : acceptance.path) Emit(grown.tree.token(node));
  Emit(acceptance.next);
  const auto& logprobs = acceptance.logprobs;
  const size_t emitted = std::min(logprobs.size(), output_.size() - before);
  logprobs_.insert(logprobs_.end(), logprobs.begin(), logprobs.begin() + emitted);
  committed_ += acceptance.committed_length();
  root_ = acceptance.next;
  record.nodes = grown.tree.nodes();
  record.drafted = grown.drafted;
  record.reason = grown.reason;
  record.accepted = static_cast<int>(acceptance.path.size());
  record.committed_length = static_cast<int>(output_.size() - before);
  policy_->Observe(grown, acceptance);
  cycles_.push_back(record);
}

}  // namespace bastion
