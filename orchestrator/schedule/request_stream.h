// RequestStream: the bounded queue between the cycle's thread, which produces the answers of a
// call, and the thread of the RPC, which writes them to the client. The output of several cycles is
// combined into one message if it arrives faster than messages are sent. This matters if decoding
// and serving share a machine: one message can take a tenth of the time of a fast cycle.
// Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_REQUEST_STREAM_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_REQUEST_STREAM_H_

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/mutex.h"
#include "orchestrator/cycle/sequence.h"

namespace bastion {

struct RequestTimes {
  absl::Duration queue, prefill, first_token, decode, total;
};

// The end of an answer.
struct OutputEnd {
  FinishReason reason = FinishReason::kNone;
  std::string stop_string;
  std::optional<TokenId> stop_token;
  int prompt_tokens = 0;
  int completion_tokens = 0;
  int cached_prompt_tokens = 0;
  uint64_t seed = 0;
  std::string policy;
  RequestTimes times;
  bool waited_for_room = false;  // The server was full while the request waited in the queue.
  std::vector<CycleRecord> cycles;
};

// The output of one or more cycles of an answer.
struct OutputDelta {
  int answer = 0;  // Which answer of the call.
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;  // One per token; empty unless the request asks for them.
  std::vector<CycleRecord> cycles;
  absl::Duration detokenize;     // Time that it took to make `text`.
  std::optional<OutputEnd> end;  // In the last delta of the answer.
};

class RequestStream {
 public:
  static constexpr size_t kCapacity = 256;  // In cycles, for each answer.
  // In bytes, for each answer, approximately. So a message of waiting output and one more cycle is
  // smaller than the 4 MiB that gRPC clients accept by default.
  static constexpr size_t kByteCapacity = 1 << 20;

  // `interval` is the minimum time between two deltas of an answer. It does not delay the last
  // delta of an answer or a full stream.
  explicit RequestStream(absl::Duration interval = absl::ZeroDuration(), int answers = 1);

  // ---- called by the cycle's thread ----
  // True if the output that waits for the client fills the capacity. The caller must not push more.
  [[nodiscard]] bool full() const ABSL_LOCKS_EXCLUDED(mutex_);
  // True after Cancel() or Fail(). The caller should drop the requests of all answers.
  [[nodiscard]] bool canceled() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds the output of a cycle. The stream ends when all answers have ended. REQUIRES: `delta` has
  // at least one cycle, and its answer has not ended.
  void Push(OutputDelta delta) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the stream with an error. No effect if it has ended. If the stream is full, its content is
  // discarded and the abort callback is called.
  void Fail(const absl::Status& error) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- called by the RPC's thread ----
  // `abort` is called if the stream fails while it is full, because then the RPC's thread is
  // blocked by a client that does not read. Set it before the request is submitted. It must stay
  // callable until Cancel() returns, and must not call this object.
  void SetAbortCallback(std::function<void()> abort) { abort_ = std::move(abort); }
  enum class Event { kTimeout, kDelta, kEnd };
  // How often a thread that waits for events should look whether its client is still there.
  static constexpr absl::Duration kClientCheckInterval = absl::Milliseconds(50);
  // Waits up to `timeout` for the next event. kDelta: `delta` is the output of all waiting cycles
  // of one answer. kEnd: there is no further output, and status() is valid.
  Event WaitForEvent(absl::Duration timeout, OutputDelta& delta) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called when the client has disconnected or the RPC has ended.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);
  // When the stream ended, on Clock::Real(); nullopt before. From then on, only the client's
  // reading takes time.
  [[nodiscard]] std::optional<absl::Duration> ended() const ABSL_LOCKS_EXCLUDED(mutex_);
  // OK if all answers are complete. REQUIRES: WaitForEvent returned kEnd.
  [[nodiscard]] absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  [[nodiscard]] bool IsFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return waiting_cycles_ >= kCapacity * pending_.size() || most_bytes_ >= kByteCapacity;
  }
  [[nodiscard]] bool HasEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return unfinished_ == 0 || !status_.ok();
  }
  // Moves the waiting output to taken_.
  void TakeWaiting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // pending_ is empty now.
  void ForgetSizes() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const absl::Duration interval_;
  std::function<void()> abort_;
  std::deque<OutputDelta> taken_;  // The next deltas. Used only by the RPC's thread.
  mutable Mutex mutex_;
  std::vector<OutputDelta> pending_ ABSL_GUARDED_BY(mutex_);   // By answer.
  std::vector<size_t> pending_bytes_ ABSL_GUARDED_BY(mutex_);  // By answer, approximately.
  size_t most_bytes_ ABSL_GUARDED_BY(mutex_) = 0;              // The largest of them.
  size_t waiting_cycles_ ABSL_GUARDED_BY(mutex_) = 0;          // In pending_.
  bool has_last_delta_ ABSL_GUARDED_BY(mutex_) = false;        // In pending_.
  int unfinished_ ABSL_GUARDED_BY(mutex_);                     // Answers that have not ended.
  // The earliest time of the next deltas.
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool canceled_ ABSL_GUARDED_BY(mutex_) = false;
  std::optional<absl::Duration> ended_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_REQUEST_STREAM_H_
