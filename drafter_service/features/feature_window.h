// FeatureWindow: the features of a sequence that have arrived from the verifier and are unread:
// rows [first, first + rows), in one or more pieces. Plain data. Thread-compatible.
#ifndef BASTION_DRAFTER_SERVICE_FEATURES_FEATURE_WINDOW_H_
#define BASTION_DRAFTER_SERVICE_FEATURES_FEATURE_WINDOW_H_

#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/stages/features.h"

namespace bastion::drafter {

struct FeatureWindow {
  Position first = 0;
  int rows = 0;
  std::deque<Features> pieces;
  absl::Status status;
  int unread = 0;       // Cycles since the last Read.
  uint64_t follow = 0;  // Number of the request that the rows answer.
  Position end = 0;     // The verifier may send rows before this position.
  // Since when a Read has lacked rows while none arrived.
  absl::Time wanted_since = absl::InfiniteFuture();

  // Adds rows at the end.
  void Append(Features features);
  // Removes and returns up to `count` rows of the first piece.
  [[nodiscard]] Features Pop(int count);
  // Rows of the pieces before the first one on a device.
  [[nodiscard]] int RowsAsBytes() const;
  // Removes and returns `count` rows. REQUIRES: count <= RowsAsBytes().
  [[nodiscard]] Features PopBytes(int count);
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_FEATURES_FEATURE_WINDOW_H_
