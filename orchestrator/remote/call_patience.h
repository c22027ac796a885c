// CallPatience: how long to wait for a call, judged by the calls before it. A call that takes much
// longer than they did will probably never end, because its peer hangs.
//
// The limit is kSlack times the slowest of the last kRecent calls, in proportion to their work, and
// between `longest` / kRange and `longest`. Before kFewest calls were seen, it is `longest`. Each
// failed call doubles it, until kFewest calls have succeeded: a peer that has only become slower
// costs few timeouts, and a peer that hangs after an interruption costs a fraction of `longest`.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_REMOTE_CALL_PATIENCE_H_
#define BASTION_ORCHESTRATOR_REMOTE_CALL_PATIENCE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

namespace bastion {

class CallPatience {
 public:
  static constexpr int kSlack = 5;
  static constexpr size_t kRecent = 64;
  static constexpr size_t kFewest = 8;
  static constexpr int kRange = 5;

  explicit CallPatience(absl::Duration longest) : longest_(longest) {}

  // The limit for a call with this work, in any unit that bounds how the time of a call grows:
  // twice the work takes at most twice the time.
  [[nodiscard]] absl::Duration For(int64_t work) const;
  // A call with this work took so long.
  void Record(int64_t work, absl::Duration time);
  // A call failed. It may have exceeded its limit.
  void RecordFailure();

 private:
  struct Call {
    int64_t work;
    absl::Duration time;
  };

  const absl::Duration longest_;
  std::vector<Call> calls_;  // The last kRecent calls. A new one replaces calls_[oldest_].
  size_t oldest_ = 0;
  int doubling_ = 1;
  size_t calls_after_failure_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_REMOTE_CALL_PATIENCE_H_
