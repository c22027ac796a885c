// LiveRequest: a request that is being served: its sequence, its text so far and its stream. The
// RPC's thread creates it, then the scheduler owns it. Thread-compatible; the stream is
// thread-safe.
#ifndef BASTION_ORCHESTRATOR_SERVE_LIVE_REQUEST_H_
#define BASTION_ORCHESTRATOR_SERVE_LIVE_REQUEST_H_

#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/hub/detokenizer.h"
#include "common/hub/tokenizer.h"
#include "orchestrator/cycle/sequence.h"
#include "orchestrator/policy/speculation_memory.h"
#include "orchestrator/serve/prepared_request.h"
#include "orchestrator/serve/request_stream.h"
#include "orchestrator/text/stop_strings.h"

namespace bastion {

class LiveRequest {
 public:
  // `tokenizer` and `clock` must outlive this object. `interval`: see RequestStream.
  LiveRequest(PreparedRequest request, const hub::Tokenizer* tokenizer, const Clock* clock,
              absl::Duration interval = absl::ZeroDuration());

  // Called when the scheduler admits the request. `id` must be unused.
  void CreateSequence(SequenceId id, const CostModel* costs, SpeculationMemory* memory);
  // REQUIRES: CreateSequence was called.
  [[nodiscard]] DecodeSequence& sequence() { return *sequence_; }

  // Called when the prompt is prefilled. Decode time starts now.
  void MarkPrefilled();
  // Pushes the output of the last cycle to the stream. Closes the stream if the sequence is done.
  void PublishCycle();
  // Closes the stream with an error.
  void Fail(const absl::Status& status) { stream_->Close(status); }

  // The time at which the stream became full because the client does not read; nullopt if it is not
  // full. Set by the scheduler, which drops the request if the client stalls for too long.
  std::optional<absl::Duration> stalled_since;

  [[nodiscard]] const PreparedRequest& request() const { return request_; }
  [[nodiscard]] const std::shared_ptr<RequestStream>& stream() const { return stream_; }

 private:
  // Returns the new text that later tokens can no longer change. Ends the sequence at a stop
  // string.
  [[nodiscard]] std::string Detokenize(const std::vector<TokenId>& tokens);
  // Closes the stream at the end of the answer.
  void PublishEnd();

  PreparedRequest request_;
  const Clock* const clock_;
  const std::shared_ptr<RequestStream> stream_;
  std::unique_ptr<DecodeSequence> sequence_;
  hub::Detokenizer detokenizer_;
  StopStrings stops_;
  size_t published_ = 0;  // Number of output tokens pushed to the stream.
  absl::Duration arrived_, admitted_, prefilled_;
  RequestTimes times_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_LIVE_REQUEST_H_
