// ConsoleFeed: collects what the console shows: the recent cycles, totals of the last minute, and
// the requests that were served lately. It keeps numbers. Of the tokens it keeps only some draft
// trees.
//
// Recording a cycle takes about a microsecond. Trees and requests are recorded only while a viewer
// polls, and trees at most kTrees times per kTreeInterval, because they cost more. Thread-safe.
#ifndef BASTION_ORCHESTRATOR_CONSOLE_CONSOLE_FEED_H_
#define BASTION_ORCHESTRATOR_CONSOLE_CONSOLE_FEED_H_

#include <array>
#include <atomic>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "orchestrator/cost/stage_times.h"
#include "orchestrator/cycle/verified_tree.h"
#include "orchestrator/observe/cycle_mode.h"
#include "orchestrator/observe/live_speedup.h"
#include "orchestrator/schedule/serving_observer.h"

namespace bastion {

// One cycle, all requests together.
struct ConsoleCycle {
  int64_t number = 0;  // From 1, without gaps.
  CycleMode mode = CycleMode::kPrompts;
  StageTimes stages;
  absl::Duration predicted_verify;  // Prediction of stages.verify.
  int requests = 0;                 // Requests that decoded.
  int rows = 0;                     // Rows of the verify call.
  int prompt_rows = 0;              // Those of prompts.
  int nodes = 0;
  int tokens = 0;  // Committed tokens of output.
};

// Totals of an interval of time.
struct ConsoleInterval {
  static constexpr int kLengths = 17;

  int tokens = 0;                          // Committed tokens of output.
  int request_cycles = 0;                  // Cycles, counted once for each request that decoded.
  absl::Duration spent;                    // Time of decoding.
  absl::Duration plain;                    // Estimated time of plain decoding for the same tokens.
  std::array<int, kLengths> lengths = {};  // Element i: request cycles that committed i + 1 tokens.
                                           // The last one also counts longer ones.
};

// A request that is being served, or that has ended lately.
struct ConsoleRequest {
  enum class State { kPrefill, kDecoding, kDone, kFailed };

  std::string id, client;  // At most kNameBytes of each, as the client stated them.
  std::string policy;
  State state = State::kPrefill;
  int prompt_tokens = 0;
  int prompt_left = 0;  // Tokens that are not prefilled yet.
  int output_tokens = 0;
  int max_tokens = 0;
  int cycles = 0;
  absl::Duration decode;  // Time since the end of prefill, up to the last output.
  absl::Duration idle;    // Time since its last cycle, or since its end.
  std::shared_ptr<const VerifiedTree> tree;  // The latest one with nodes; null if there is none.
  int tree_cycle = 0;                        // The request's cycle that verified it, from 1.
};

struct ConsoleSnapshot {
  std::vector<ConsoleCycle> cycles;        // Oldest first.
  std::vector<ConsoleInterval> intervals;  // Oldest first. The last one has not ended.
  std::vector<ConsoleRequest> requests;    // In the order of arrival.
  double speedup = 1;                      // LiveSpeedup
  absl::Duration idle =
      absl::InfiniteDuration();  // Since the last cycle; infinite if there is none.
};

class ConsoleFeed final : public ServingObserver {
 public:
  static constexpr int kCycles = 240;     // Cycles that are kept.
  static constexpr int kIntervals = 120;  // Intervals that are kept.
  static constexpr absl::Duration kInterval = absl::Milliseconds(500);
  static constexpr int kRequests = 32;  // Requests that are kept. Further ones are left out.
  static constexpr size_t kNameBytes = 64;
  // How long a viewer counts as such after a call of Read.
  static constexpr absl::Duration kWatched = absl::Seconds(3);
  // How long an ended request is kept.
  static constexpr absl::Duration kEndedKept = absl::Seconds(10);
  static constexpr int kTrees = 16;
  static constexpr absl::Duration kTreeInterval = absl::Milliseconds(400);

  // `clock` must outlive this object.
  explicit ConsoleFeed(const Clock* clock = &Clock::Real())
      : clock_(*clock), ring_(kCycles), intervals_(kIntervals) {}

  void OnCycle(const CycleSummary& cycle, const ServedCycle& requests) override;
  void OnEnd(const LiveRequest& request, const absl::Status& status) override;

  // Returns the state, with the cycles whose numbers are above `after`, as far as they are kept. If
  // there is no cycle `after` yet, the viewer saw another run of the service: returns all cycles.
  [[nodiscard]] ConsoleSnapshot Read(int64_t after) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Interval {
    int64_t index = -1;  // Its start, in units of kInterval.
    ConsoleInterval totals = {};
  };
  struct Request {
    const LiveRequest* live = nullptr;  // Null if it has ended.
    absl::Duration last_served;         // Or the time of its end.
    ConsoleRequest shown;
  };

  // A viewer has called Read lately.
  [[nodiscard]] bool IsWatched(absl::Duration now) const {
    return absl::ToInt64Nanoseconds(now) < watched_until_;
  }
  // Adds the decoding of a cycle to the totals. Returns the tokens that it committed.
  int AddDecoding(const CycleSummary& cycle, const ServedCycle& requests, absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The entry of `request`; null if it has none.
  [[nodiscard]] Request* Find(const LiveRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The entry of `request`, which may be new; null if the list is full.
  [[nodiscard]] Request* FindOrAdd(const LiveRequest& request, absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Records the requests of a cycle, and asks for trees of their next ones.
  void RecordRequests(const ServedCycle& requests, absl::Duration now)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Removes requests that ended too long ago.
  void RemoveEnded(absl::Duration now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Clock& clock_;
  std::atomic<int64_t> watched_until_{0};  // Nanoseconds on clock_.
  LiveSpeedup speedup_;
  Mutex mutex_;
  std::vector<ConsoleCycle> ring_ ABSL_GUARDED_BY(mutex_);   // Cycle n is at n % kCycles.
  int64_t newest_ ABSL_GUARDED_BY(mutex_) = 0;               // Number of the last cycle.
  absl::Duration last_cycle_ ABSL_GUARDED_BY(mutex_);        // When it ended.
  std::vector<Interval> intervals_ ABSL_GUARDED_BY(mutex_);  // Interval n is at n % kIntervals.
  std::vector<Request> requests_ ABSL_GUARDED_BY(mutex_);
  // When trees of all requests were asked for, and how many may still be before the next time.
  absl::Duration trees_began_ ABSL_GUARDED_BY(mutex_) = -absl::InfiniteDuration();
  int trees_left_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_CONSOLE_CONSOLE_FEED_H_
