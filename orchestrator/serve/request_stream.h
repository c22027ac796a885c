// RequestStream: the bounded queue between the cycle's thread, which produces the events of a
// request, and the thread of the request's RPC, which writes them to the client. The output of
// several cycles is combined into one message if it arrives faster than messages are sent. This
// matters if decoding and serving share a machine: one message can take a tenth of the time of a
// fast cycle. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_SERVE_REQUEST_STREAM_H_
#define BASTION_ORCHESTRATOR_SERVE_REQUEST_STREAM_H_

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

// The output of one or more cycles of a request.
struct OutputDelta {
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;  // One per token; empty unless the request asks for them.
  std::vector<CycleRecord> cycles;
};

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
  std::vector<CycleRecord> cycles;
};

class RequestStream {
 public:
  static constexpr size_t kCapacity = 256;  // In cycles.

  // `interval` is the minimum time between two deltas. It does not delay the last delta of an
  // answer or a full stream.
  explicit RequestStream(absl::Duration interval = absl::ZeroDuration()) : interval_(interval) {}

  // ---- called by the cycle's thread ----
  // True if kCapacity cycles are waiting for the client. The caller must not push more.
  [[nodiscard]] bool full() const ABSL_LOCKS_EXCLUDED(mutex_);
  // True after Cancel(). The caller should drop the request.
  [[nodiscard]] bool canceled() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Adds the output of a cycle. REQUIRES: `delta` has at least one cycle.
  void Push(OutputDelta delta) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the stream. Only the first call has an effect. With an error, `end` is ignored; if the
  // stream is also full, its content is discarded and the abort callback is called.
  void Close(absl::Status status, OutputEnd end = {}) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- called by the RPC's thread ----
  // `abort` is called if the stream fails while it is full, because then the RPC's thread is
  // blocked by a client that does not read. Set it before the request is submitted. It must stay
  // callable until Cancel() returns, and must not call this object.
  void SetAbortCallback(std::function<void()> abort) { abort_ = std::move(abort); }
  enum class Event { kTimeout, kDelta, kEnd };
  // Waits up to `timeout` for the next event. kDelta: `delta` is the output of all waiting cycles.
  // kEnd: all output has been returned, and status() and end() are valid.
  Event WaitForEvent(absl::Duration timeout, OutputDelta& delta) ABSL_LOCKS_EXCLUDED(mutex_);
  // Called when the client has disconnected or the RPC has ended.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);
  // REQUIRES, for both: WaitForEvent returned kEnd.
  [[nodiscard]] absl::Status status() const ABSL_LOCKS_EXCLUDED(mutex_);
  [[nodiscard]] OutputEnd end() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  [[nodiscard]] bool IsFull() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return pending_.cycles.size() >= kCapacity;
  }

  const absl::Duration interval_;
  std::function<void()> abort_;
  mutable Mutex mutex_;
  OutputDelta pending_ ABSL_GUARDED_BY(mutex_);
  // The earliest time of the next delta.
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  bool canceled_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  OutputEnd end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_REQUEST_STREAM_H_
