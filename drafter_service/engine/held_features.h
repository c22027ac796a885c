// HeldFeatures: features of one sequence that a drafter has read, but whose rows it may have to
// compute yet. A feature source gives each row only once. Thread-compatible.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_HELD_FEATURES_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_HELD_FEATURES_H_

#include "absl/status/status.h"
#include "common/stages/features.h"

namespace bastion::drafter {

class HeldFeatures {
 public:
  // The rows [first(), end()) are here.
  [[nodiscard]] Position first() const { return first_; }
  [[nodiscard]] Position end() const { return first_ + features_.rows(); }
  // Drops the rows before `row`, and all rows if `row` is not in [first(), end()]. Then end() is
  // `row` or more.
  void KeepFrom(Position row);
  // Adds rows at the end. INVALID_ARGUMENT if they are in device memory, or have another width or
  // type.
  [[nodiscard]] absl::Status Append(Features features);
  // `count` rows. REQUIRES: they are here.
  [[nodiscard]] Features Rows(Position first, int count) const;

 private:
  Position first_ = 0;
  Features features_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_HELD_FEATURES_H_
