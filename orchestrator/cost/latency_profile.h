// LatencyProfile: measured verify times over row counts and context lengths. Plain data, produced
// by MeasureProfile() and read by the estimators.
#ifndef BASTION_ORCHESTRATOR_COST_LATENCY_PROFILE_H_
#define BASTION_ORCHESTRATOR_COST_LATENCY_PROFILE_H_

#include <vector>

#include "common/stages/stage_data.h"

namespace bastion {

struct ProfilePoint {
  int rows = 0;                   // Rows of the verify forward, the root included.
  int context = 0;                // Cached tokens.
  double seconds = 0;             // Time reported by the verifier: TimingTrace::verify().
  double round_trip_seconds = 0;  // Time that the caller waited for the reply.
  bool interpolated = false;      // FillGrid computed this point from its neighbors.
  double experts = 0;             // The mean of TimingTrace::experts. 0: the target has none.
};

struct LatencyProfile {
  std::vector<ProfilePoint> points;
  // What every sequence after the first adds to a call with a given number of rows
  // (batch_profile.h).
  double sequence_seconds = 0;
  // The verifier's peaks when the points were measured. They differ a little from start to start,
  // and the roofline fits the points best with those of the same start. Zero: not known.
  DevicePeaks peaks = {};
  // What every further expert adds to a call (expert_profile.h). 0: the target has none.
  double expert_seconds = 0;

  // `peaks`, or those of `target` if they are not known.
  [[nodiscard]] const DevicePeaks& PeaksFor(const TargetInfo& target) const {
    return peaks.flops_per_second > 0 ? peaks : target.peaks;
  }
  [[nodiscard]] int max_rows() const;
  [[nodiscard]] bool has_experts() const { return !points.empty() && points.front().experts > 0; }
  // The median of the time that a call takes beyond the verify itself (transport and queue).
  [[nodiscard]] double OverheadSeconds() const;
};

// Completes `measured` so that every context has all row counts of the smallest context. The time
// of a missing point is the time of the same row count at the smallest context, plus the extra time
// of the longer context. The extra time is interpolated between the row counts that are measured at
// the longer context, and constant outside them. REQUIRES: every measured row count is also
// measured at the smallest context.
[[nodiscard]] LatencyProfile FillGrid(const LatencyProfile& measured);

// The median of `values`: the lower of the two middle values if the count is even, 0 if there are
// no values.
[[nodiscard]] double Median(std::vector<double> values);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_LATENCY_PROFILE_H_
