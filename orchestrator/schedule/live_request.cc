#include "orchestrator/schedule/live_request.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {

LiveRequest::LiveRequest(PreparedRequest request, const hub::Tokenizer* tokenizer,
                         const Clock* clock, CallShare call, ServingObserver* observer)
    : request_(std::make_shared<const PreparedRequest>(std::move(request))),
      answer_(0),
      tokenizer_(*tokenizer),
      clock_(clock),
      call_(std::move(call)),
      observer_(observer),
      max_tokens_(request_->decode.max_tokens),
      detokenizer_(tokenizer_),
      stops_(request_->stops),
      arrived_(clock->Now()) {}

LiveRequest::LiveRequest(const LiveRequest& first, int answer)
    : request_(first.request_),
      answer_(answer),
      tokenizer_(first.tokenizer_),
      clock_(first.clock_),
      call_(first.call_),
      observer_(first.observer_),
      max_tokens_(first.max_tokens_),
      detokenizer_(tokenizer_),
      stops_(request_->stops),
      arrived_(first.arrived_) {}

std::vector<std::unique_ptr<LiveRequest>> LiveRequest::TakeOtherAnswers() {
  std::vector<std::unique_ptr<LiveRequest>> others;
  if (answer_ != 0 || std::exchange(has_made_answers_, true)) return others;
  for (int answer = 1; answer < request_->answers; ++answer) {
    others.push_back(std::unique_ptr<LiveRequest>(new LiveRequest(*this, answer)));
  }
  return others;
}

void LiveRequest::LimitDefaultLength(int tokens) {
  if (request_->default_max_tokens) max_tokens_ = std::clamp(max_tokens_, 1, std::max(1, tokens));
}

void LiveRequest::CreateSequence(SequenceId id, uint64_t admission, const CostModel* costs,
                                 SharedLearning* memory) {
  admission_ = admission;
  admitted_ = clock_->Now();
  times_.queue = admitted_ - arrived_;
  DecodeRequest decode = request_->decode;
  decode.id = id;
  decode.sampling.seed = seed();
  decode.max_tokens = max_tokens_;
  const bool greedy = decode.sampling.temperature == 0;
  sequence_ = std::make_unique<DecodeSequence>(std::move(decode),
                                               request_->policy.NewRequest(greedy, costs, memory));
}

int LiveRequest::prompt_left() const {
  return admitted() ? sequence_->prompt_left()
                    : static_cast<int>(request_->decode.prompt.size()) - 1;
}

int LiveRequest::tokens_left() const {
  const size_t emitted = admitted() ? sequence_->output().size() : 0;
  return max_tokens_ - static_cast<int>(emitted);
}

void LiveRequest::Fail(const absl::Status& status) {
  ReportEnd(status);
  call_.stream->Fail(status);
}

void LiveRequest::ReportEnd(const absl::Status& status) {
  if (std::exchange(has_ended_, true)) return;
  TellObserver(observer_, [&](ServingObserver& observer) { observer.OnEnd(*this, status); });
}

void LiveRequest::MarkPrefilled() {
  if (std::exchange(is_prefilled_, true)) return;
  prefilled_ = clock_->Now();
  times_.prefill = prefilled_ - admitted_;
}

int LiveRequest::TakeCommitted() {
  const Position before = std::exchange(counted_, std::max(counted_, sequence_->committed()));
  return counted_ - before;
}

absl::Status LiveRequest::CanceledError() {
  return ForClient(absl::CancelledError("the client disconnected"));
}

absl::Status LiveRequest::DeadlineError() {
  return ForClient(absl::DeadlineExceededError("the deadline of the call has passed"));
}

absl::Status LiveRequest::CheckClient() const {
  if (call_.stream->canceled()) return CanceledError();
  if (clock_->Now() >= request_->deadline) return DeadlineError();
  return absl::OkStatus();
}

void LiveRequest::UpdateStall() {
  const absl::Duration now = clock_->Now();
  const absl::Duration before = std::exchange(stall_, absl::ZeroDuration());
  if (!call_.stream->full()) {
    full_since_.reset();
    return;
  }
  if (!full_since_) full_since_ = now;
  stall_ = now - *full_since_;
  total_stall_ += stall_ - before;
}

void LiveRequest::EndStall() {
  full_since_.reset();
  stall_ = absl::ZeroDuration();
}

std::string LiveRequest::Detokenize(const std::vector<TokenId>& tokens) {
  if (!stops_.any()) return detokenizer_.Push(tokens);
  // Token by token, so that the answer ends with the token that completes a stop string.
  std::string text;
  const auto min_tokens = static_cast<size_t>(request_->decode.sampling.min_tokens);
  for (size_t i = 0; i < tokens.size() && !stops_.stopped(); ++i) {
    const std::string piece = detokenizer_.Push({tokens[i]});
    text += published_ + i < min_tokens ? piece : stops_.Push(piece);
    if (stops_.stopped()) sequence_->StopAfter(published_ + i + 1, FinishReason::kStopString);
  }
  return text;
}

void LiveRequest::CountLoss() {
  const absl::Duration now = clock_->Now();
  if (losses_ > 0 && now - counted_loss_ < kLossInterval) return;
  ++losses_;
  counted_loss_ = now;
}

void LiveRequest::PublishCycle() {
  losses_ = 0;
  OutputDelta delta;
  delta.answer = call_.first_answer + answer_;
  const std::vector<TokenId>& output = sequence_->output();
  const absl::Duration began = clock_->Now();
  // An exception interrupted the last call. The detokenizer has already received that output, so
  // its text cannot be made again, and CheckPublished fails the request.
  if (std::exchange(is_publishing_, true)) return;
  delta.text = Detokenize({output.begin() + published_, output.end()});
  delta.tokens.assign(output.begin() + published_, output.end());
  const std::vector<TokenLogprobs>& logprobs = sequence_->logprobs();
  if (!logprobs.empty()) delta.logprobs.assign(logprobs.begin() + published_, logprobs.end());
  published_ = output.size();
  delta.cycles = {sequence_->cycles().back()};
  if (sequence_->done() && !stops_.stopped()) {
    delta.text += stops_.Push(detokenizer_.FlushIncomplete());
    delta.text += stops_.TakeHeldText();
  }
  const absl::Duration now = clock_->Now();
  delta.detokenize = now - began;
  if (times_.first_token == absl::ZeroDuration()) times_.first_token = now - arrived_;
  times_.decode = now - prefilled_;
  times_.total = now - arrived_;
  if (last_output_.has_value()) last_gap_ = now - *last_output_;
  last_output_ = now;
  const bool ends = sequence_->done();
  if (ends) delta.end = End();
  call_.stream->Push(std::move(delta));
  is_publishing_ = false;
  if (ends) ReportEnd(absl::OkStatus());
}

absl::Status LiveRequest::CheckPublished() const {
  if (!is_publishing_ && (has_ended_ || !sequence_->done())) return absl::OkStatus();
  return absl::InternalError("an exception kept output of the answer from the client");
}

OutputEnd LiveRequest::End() const {
  OutputEnd end;
  end.reason = sequence_->reason();
  end.stop_string = stops_.match();
  if (end.reason == FinishReason::kStopToken) {
    end.stop_token = sequence_->output().back();
    for (const auto& [token, text] : request_->special_stops) {
      if (token == *end.stop_token) end.stop_string = text;
    }
  }
  end.prompt_tokens = static_cast<int>(request_->decode.prompt.size());
  end.completion_tokens = static_cast<int>(sequence_->output().size());
  end.cached_prompt_tokens = sequence_->reused_prompt_tokens();
  end.seed = seed();
  end.policy = request_->policy.text();
  end.times = times_;
  end.waited_for_room = waited_for_room_;
  end.cycles = sequence_->cycles();
  return end;
}

}  // namespace bastion
