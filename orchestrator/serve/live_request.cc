#include "orchestrator/serve/live_request.h"

#include <utility>

namespace bastion {

LiveRequest::LiveRequest(PreparedRequest request, const hub::Tokenizer* tokenizer,
                         const Clock* clock, absl::Duration interval)
    : request_(std::move(request)),
      clock_(clock),
      stream_(std::make_shared<RequestStream>(interval)),
      detokenizer_(*tokenizer),
      stops_(request_.stops),
      arrived_(clock->Now()) {}

void LiveRequest::CreateSequence(SequenceId id, const CostModel* costs, SpeculationMemory* memory) {
  admitted_ = clock_->Now();
  times_.queue = admitted_ - arrived_;
  DecodeRequest decode = request_.decode;
  decode.id = id;
  const bool greedy = decode.sampling.temperature == 0;
  sequence_ = std::make_unique<DecodeSequence>(std::move(decode),
                                               request_.policy.NewRequest(greedy, costs, memory));
}

void LiveRequest::MarkPrefilled() {
  prefilled_ = clock_->Now();
  times_.prefill = prefilled_ - admitted_;
}

std::string LiveRequest::Detokenize(const std::vector<TokenId>& tokens) {
  if (!stops_.any()) return detokenizer_.Push(tokens);
  // Token by token, so that the answer ends with the token that completes a stop string.
  std::string text;
  const auto min_tokens = static_cast<size_t>(request_.decode.sampling.min_tokens);
  for (size_t i = 0; i < tokens.size() && !stops_.stopped(); ++i) {
    const std::string piece = detokenizer_.Push({tokens[i]});
    text += published_ + i < min_tokens ? piece : stops_.Push(piece);
    if (stops_.stopped()) sequence_->StopAfter(published_ + i + 1, FinishReason::kStopString);
  }
  return text;
}

void LiveRequest::PublishCycle() {
  OutputDelta delta;
  const std::vector<TokenId>& output = sequence_->output();
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
  if (times_.first_token == absl::ZeroDuration()) times_.first_token = now - arrived_;
  times_.decode = now - prefilled_;
  times_.total = now - arrived_;
  stream_->Push(std::move(delta));
  if (sequence_->done()) PublishEnd();
}

void LiveRequest::PublishEnd() {
  OutputEnd end;
  end.reason = sequence_->reason();
  end.stop_string = stops_.match();
  if (end.reason == FinishReason::kStopToken) end.stop_token = sequence_->output().back();
  end.prompt_tokens = static_cast<int>(request_.decode.prompt.size());
  end.completion_tokens = static_cast<int>(sequence_->output().size());
  end.seed = request_.decode.sampling.seed;
  end.policy = request_.policy.text();
  end.times = times_;
  end.cycles = sequence_->cycles();
  stream_->Close(absl::OkStatus(), std::move(end));
}

}  // namespace bastion
