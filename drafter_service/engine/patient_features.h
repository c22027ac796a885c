// PatientFeatures: reads the features that a call of an engine needs. All reads of a call share the
// time that it may wait. Thread-compatible.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_PATIENT_FEATURES_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_PATIENT_FEATURES_H_

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/stages/features.h"
#include "common/stages/stage_data.h"

namespace bastion::drafter {

class PatientFeatures {
 public:
  // `source` must outlive this object.
  explicit PatientFeatures(FeatureSource* source) : source_(source) {}

  // Begins a call, which may wait for `patience`.
  void BeginCall(absl::Duration patience) { patience_ = patience; }

  // Reads `range`, and adds the time to `trace`. The errors of the source.
  [[nodiscard]] absl::StatusOr<Features> Read(const FeatureRange& range, DraftTrace& trace) {
    StopWatch watch;
    absl::StatusOr<Features> features = source_->Read(range, patience_);
    const absl::Duration waited = watch.Lap();
    patience_ = std::max(patience_ - waited, absl::ZeroDuration());
    trace.features += waited;
    return features;
  }

  // For reads outside of calls.
  [[nodiscard]] FeatureSource& source() const { return *source_; }

 private:
  FeatureSource* const source_;
  absl::Duration patience_;  // How long the current call may still wait.
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_PATIENT_FEATURES_H_
