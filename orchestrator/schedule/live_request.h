// LiveRequest: an answer that is being generated: its sequence, its text so far and its stream. The
// RPC's thread creates it, then the scheduler's queue and loop own it. Thread-compatible; the
// stream is thread-safe.
//
// A call makes one LiveRequest per prompt. For several answers to it, that one makes those of the
// other answers when its prompt is prefilled. From then on they are requests like any other. They
// share the prompt and its pages. All answers of a call share its stream.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_LIVE_REQUEST_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_LIVE_REQUEST_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/hub/detokenizer.h"
#include "common/hub/tokenizer.h"
#include "orchestrator/cycle/batch_planner.h"
#include "orchestrator/cycle/sequence.h"
#include "orchestrator/policy/shared_learning.h"
#include "orchestrator/schedule/prepared_request.h"
#include "orchestrator/schedule/request_stream.h"
#include "orchestrator/schedule/serving_observer.h"
#include "orchestrator/text/stop_strings.h"

namespace bastion {

class LiveRequest {
 public:
  // The part of a call that a prompt has. All prompts of a call share its stream, where the answers
  // to this one begin with number `first_answer`.
  struct CallShare {
    std::shared_ptr<RequestStream> stream;
    int first_answer = 0;
  };

  static constexpr absl::Duration kLossInterval = absl::Milliseconds(500);

  // The first answer to a prompt. `tokenizer` and `clock` must outlive this object and those of the
  // other answers. `observer` is told when the request ends. It may be null, and must outlive this
  // object.
  LiveRequest(PreparedRequest request, const hub::Tokenizer* tokenizer, const Clock* clock,
              CallShare call, ServingObserver* observer = nullptr);

  // ---- before the first admission ----
  // Limits the answers to `tokens`, at least one, if the client did not set max_tokens.
  void LimitDefaultLength(int tokens);

  // ---- admission ----
  // Called before the first admission if the server was full while the request waited.
  void MarkWaitedForRoom() { waited_for_room_ = true; }
  // Called at the first admission. `id` must be unused. `admission` numbers the admitted requests.
  void CreateSequence(SequenceId id, uint64_t admission, const CostModel* costs,
                      SharedLearning* memory);
  // CreateSequence was called.
  [[nodiscard]] bool admitted() const { return sequence_ != nullptr; }
  // REQUIRES, for both: admitted().
  [[nodiscard]] uint64_t admission() const { return admission_; }
  [[nodiscard]] DecodeSequence& sequence() { return *sequence_; }
  [[nodiscard]] const DecodeSequence& sequence() const { return *sequence_; }
  // Tokens to commit before the request decodes: its prompt, or after a preemption also its output.
  [[nodiscard]] int prompt_left() const;
  // Output tokens that the request may still emit.
  [[nodiscard]] int tokens_left() const;

  // ---- decode ----
  // The request can be part of a forward. REQUIRES: admitted().
  [[nodiscard]] bool CanRun() const {
    return !sequence_->done() && CheckClient().ok() && (prompt_left() > 0 || !stalled());
  }
  // Called when the request is prefilled. Only the first call has an effect: decode time starts.
  void MarkPrefilled();
  // Pushes the output of the last cycle to the stream.
  void PublishCycle();
  // INTERNAL if an exception kept output from the stream for good: it interrupted PublishCycle, or
  // the sequence is done but its end was not published. REQUIRES: admitted(), and the last
  // successful cycle was published.
  [[nodiscard]] absl::Status CheckPublished() const;
  // Counts that the verifier was lost during a call with this request. Losses within kLossInterval
  // count once: a bad connection breaks many times in a second.
  void CountLoss();
  // The number of losses since the last output.
  [[nodiscard]] int losses() const { return losses_; }
  // Makes the requests of the other answers, once.
  [[nodiscard]] std::vector<std::unique_ptr<LiveRequest>> TakeOtherAnswers();
  // Ends the request with an error, and its call, for all answers. No effect on a complete answer.
  void Fail(const absl::Status& status);
  // Returns the tokens committed since the last call. Tokens that are committed again after a
  // preemption do not count again.
  [[nodiscard]] int TakeCommitted();

  // ---- the reasons for which a client loses its request ----
  [[nodiscard]] static absl::Status CanceledError();
  [[nodiscard]] static absl::Status DeadlineError();
  // Measures how long the client lets the full stream wait. Call it in every loop.
  void UpdateStall();
  // The stream was full at the last UpdateStall.
  [[nodiscard]] bool stalled() const { return full_since_.has_value(); }
  // For how long the stream has been full; zero if it is not.
  [[nodiscard]] absl::Duration stall() const { return stall_; }
  // Ends the current stall; the total stays. Called when the request must wait in the queue: until
  // it runs again, nothing measures whether its client reads.
  void EndStall();
  // For how long the stream was full in total.
  [[nodiscard]] absl::Duration total_stall() const { return total_stall_; }
  // CANCELLED or DEADLINE_EXCEEDED if the client canceled the call, another answer of the call has
  // failed, or its deadline has passed.
  [[nodiscard]] absl::Status CheckClient() const;

  // For the scheduler.
  BatchHistory history;
  int refused_forwards =
      0;  // Successive forwards in which it was starved although pages were free.
  bool in_last_call = false;  // The last call of the verifier was for this request.

  // What the client asked for. All answers to a prompt share it.
  [[nodiscard]] const PreparedRequest& request() const { return *request_; }
  // The number of the answer among those to its prompt.
  [[nodiscard]] int answer() const { return answer_; }
  // The seed of this answer.
  [[nodiscard]] uint64_t seed() const { return request_->decode.sampling.seed + answer_; }
  [[nodiscard]] const std::string& client() const { return request_->client; }
  [[nodiscard]] double weight() const { return request_->decode.weight; }
  [[nodiscard]] absl::Duration deadline() const { return request_->deadline; }
  [[nodiscard]] const std::shared_ptr<RequestStream>& stream() const { return call_.stream; }
  [[nodiscard]] const TraceContext& trace() const { return request_->trace; }
  // When it arrived, on its clock.
  [[nodiscard]] absl::Duration arrived() const { return arrived_; }
  // The time since then.
  [[nodiscard]] absl::Duration age() const { return clock_->Now() - arrived_; }
  // The times so far.
  [[nodiscard]] const RequestTimes& times() const { return times_; }
  // The time between the last two outputs; zero before the second one.
  [[nodiscard]] absl::Duration last_gap() const { return last_gap_; }

 private:
  // Another answer to the prompt of `first`, with this number.
  LiveRequest(const LiveRequest& first, int answer);

  // Returns the new text that later tokens can no longer change. Ends the sequence at a stop
  // string.
  [[nodiscard]] std::string Detokenize(const std::vector<TokenId>& tokens);
  // REQUIRES: the sequence is done.
  [[nodiscard]] OutputEnd End() const;
  // Tells the observer of the end, once.
  void ReportEnd(const absl::Status& status);

  const std::shared_ptr<const PreparedRequest> request_;
  const int answer_;
  const hub::Tokenizer& tokenizer_;
  const Clock* const clock_;
  const CallShare call_;
  ServingObserver* const observer_;
  int max_tokens_;
  bool has_ended_ = false;
  std::unique_ptr<DecodeSequence> sequence_;
  hub::Detokenizer detokenizer_;
  StopStrings stops_;
  size_t published_ = 0;         // Number of output tokens pushed to the stream.
  bool is_publishing_ = false;   // Still true if an exception interrupted PublishCycle.
  int losses_ = 0;               // Since the last output.
  absl::Duration counted_loss_;  // When the last loss was counted. Valid if losses_ > 0.
  uint64_t admission_ = 0;
  Position counted_ = 0;  // Committed tokens that TakeCommitted has returned.
  bool waited_for_room_ = false;
  bool is_prefilled_ = false;
  absl::Duration arrived_, admitted_, prefilled_;
  std::optional<absl::Duration> last_output_;
  absl::Duration last_gap_;
  std::optional<absl::Duration> full_since_;  // Time at which the stream was first seen full.
  absl::Duration stall_, total_stall_;
  RequestTimes times_;
  bool has_made_answers_ = false;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_LIVE_REQUEST_H_
