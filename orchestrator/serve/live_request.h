// LiveRequest: a request while it is served: its sequence, its text so far, its stream. Made by the
// RPC's thread, then owned by the scheduler. Thread-compatible, but for stream().
#ifndef BASTION_ORCHESTRATOR_SERVE_LIVE_REQUEST_H_
#define BASTION_ORCHESTRATOR_SERVE_LIVE_REQUEST_H_

#include <memory>
#include <optional>
#include <string>

#include "common/base/clock.h"
#include "common/hub/detokenizer.h"
#include "common/hub/tokenizer.h"
#include "orchestrator/cycle/sequence.h"
#include "orchestrator/policy/policy.h"
#include "orchestrator/serve/request_stream.h"
#include "orchestrator/text/stop_strings.h"

namespace bastion {

// A request that passed every check.
struct PreparedRequest {
  std::string request_id;
  DecodeRequest decode;
  Policy policy;
  StopStrings stops;
};

class LiveRequest {
 public:
  // `tokenizer` and `clock` must outlive it. `interval`: see RequestStream.
  LiveRequest(PreparedRequest request, const hub::Tokenizer* tokenizer, const Clock* clock,
              absl::Duration interval = absl::ZeroDuration());

  // The scheduler takes it up: makes the sequence under a session of its own.
  void Begin(SequenceId id, const CostModel* costs, SpeculationMemory* memory);
  [[nodiscard]] bool begun() const { return sequence_ != nullptr; }
  [[nodiscard]] DecodeSequence& sequence() { return *sequence_; }

  // Prefill is over: the decode clock starts.
  void PrefillDone();
  // Passes on what the last cycle committed; finishes the stream when that ended the answer.
  void PublishCycle();
  void Fail(const absl::Status& status) { stream_->Finish(status); }

  // Set while the client does not read; the scheduler gives up after a while.
  std::optional<absl::Duration> stalled_since;

  [[nodiscard]] const PreparedRequest& request() const { return request_; }
  [[nodiscard]] const std::shared_ptr<RequestStream>& stream() const { return stream_; }

 private:
  // The text that became certain with `tokens`; ends the sequence at a stop string.
  [[nodiscard]] std::string TextOf(const std::vector<TokenId>& tokens);
  void PublishEnd();

  PreparedRequest request_;
  const Clock* const clock_;
  const std::shared_ptr<RequestStream> stream_;
  std::unique_ptr<DecodeSequence> sequence_;
  hub::Detokenizer detokenizer_;
  StopStrings stops_;
  size_t published_ = 0;  // Output tokens.
  absl::Duration arrived_, begun_, prefilled_;
  RequestTimes times_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_LIVE_REQUEST_H_
