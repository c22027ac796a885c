// PeriodicSave: saves what a thread learns to a file now and then, on a background thread. The
// owner copies its data, so it may change while the copy is written. Movable. Thread-compatible.
#ifndef BASTION_COMMON_BASE_PERIODIC_SAVE_H_
#define BASTION_COMMON_BASE_PERIODIC_SAVE_H_

#include <functional>
#include <future>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace bastion {

class PeriodicSave {
 public:
  static constexpr absl::Duration kInterval = absl::Minutes(5);

  // `what` names the data in log lines, e.g. "the learned prior".
  explicit PeriodicSave(std::string what) : what_(std::move(what)) {}

  // True if kInterval has passed since the last call that returned true, or since the first call.
  [[nodiscard]] bool Due(absl::Duration now);
  // Runs `save` on a background thread. Logs its error; the next save tries again. If the last save
  // still runs, because the disk is slow or hangs, only logs that: the caller never waits.
  void Start(std::function<absl::Status()> save);
  // Waits for the last save, if any.
  void Wait();

 private:
  std::string what_;
  absl::Duration last_;
  std::future<void> saving_;
};

}  // namespace bastion

#endif  // BASTION_COMMON_BASE_PERIODIC_SAVE_H_
