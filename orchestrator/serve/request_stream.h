// The bounded queue between the cycle's thread, which produces a request's events, and the thread
// of its RPC, which writes them to the client. What several cycles gave goes to the client together
// when it came faster than the client is written to: on a machine that decodes and serves, each
// message costs a fast cycle a tenth of its time. Thread-safe.
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

// What some cycles of a request, at least one, gave its client.
struct OutputDelta {
  std::string text;
  std::vector<TokenId> tokens;
  std::vector<TokenLogprobs> logprobs;  // Of the tokens; empty unless asked for.
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
  uint64_t seed = 0;
  std::string policy;
  RequestTimes times;
  std::vector<CycleRecord> cycles;
};

class RequestStream {
 public:
  static constexpr size_t kCapacity = 256;  // Cycles that wait for the client.

  // `interval`: after a delta the next one comes no sooner, but for the last and for one that fills
  // the stream.
  explicit RequestStream(absl::Duration interval = absl::ZeroDuration()) : interval_(interval) {}

  // ---- the cycle's side ----
  [[nodiscard]] bool full() const ABSL_LOCKS_EXCLUDED(mutex_);
  [[nodiscard]] bool cancelled() const ABSL_LOCKS_EXCLUDED(mutex_);
  void Push(OutputDelta delta) ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends the stream. With an error, `end` is not read.
  void Finish(absl::Status status, OutputEnd end = {}) ABSL_LOCKS_EXCLUDED(mutex_);

  // ---- the RPC's side ----
  // `abort` is called when the stream fails while it is full: the RPC is then stuck
  // writing to a client that does not read. Set before the request is submitted; must stay callable
  // until Cancel().
  void OnAbort(std::function<void()> abort) { abort_ = std::move(abort); }
  enum class Event { kNothing, kDelta, kEnd };
  // Waits up to `patience` for the next event. A delta is all that waits; deltas come before the
  // end.
  Event Next(absl::Duration patience, OutputDelta& delta) ABSL_LOCKS_EXCLUDED(mutex_);
  // The client is gone: the cycle drops the sequence.
  void Cancel() ABSL_LOCKS_EXCLUDED(mutex_);
  // After kEnd.
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
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();  // No delta sooner.
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  OutputEnd end_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SERVE_REQUEST_STREAM_H_
