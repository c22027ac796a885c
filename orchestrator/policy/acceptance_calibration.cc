#include "orchestrator/policy/acceptance_calibration.h"

#include <algorithm>
#include <cmath>

namespace bastion {
namespace {

constexpr float kLog2 = 0.6931472f;

int DepthGroup(int depth) {
  if (depth <= 3) return depth - 1;
  if (depth <= 5) return 3;
  return depth <= 8 ? 4 : 5;
}

}  // namespace

double AcceptanceCalibration::Counts::Factor(double above, double mass) const {
  const double factor = (accepted + mass * above) / (predicted + mass);
  return std::clamp(factor, double{kMinFactor}, double{kMaxFactor});
}

int AcceptanceCalibration::GroupOf(PathKind kind, int depth) {
  return static_cast<int>(kind) * kDepthGroups + DepthGroup(depth);
}

int AcceptanceCalibration::BinOf(float log_prob) {
  return static_cast<int>(std::min(-log_prob / kLog2, static_cast<float>(kBins - 1)));
}

float AcceptanceCalibration::LogFactor(PathKind kind, int depth, float log_prob) const {
  if (stale_) UpdateFactors();
  return groups_[GroupOf(kind, depth)].log_factors[BinOf(log_prob)];
}

void AcceptanceCalibration::Observe(PathKind kind, int depth, float log_prob, double trusted,
                                    bool accepted) {
  Group& group = groups_[GroupOf(kind, depth)];
  for (Counts* counts : {&group.all, &group.bins[BinOf(log_prob)]}) {
    counts->predicted += unit_ * trusted;
    if (accepted) counts->accepted += unit_;
  }
}

void AcceptanceCalibration::EndCycle() {
  unit_ /= 1 - 1 / kMemory;
  stale_ = true;
  constexpr double kLargestUnit = 1e100;
  if (unit_ < kLargestUnit) return;
  const auto shrink = [this](Counts& counts) {
    counts.accepted /= unit_;
    counts.predicted /= unit_;
  };
  for (Group& group : groups_) {
    shrink(group.all);
    for (Counts& counts : group.bins) shrink(counts);
  }
  unit_ = 1;
}

void AcceptanceCalibration::UpdateFactors() const {
  stale_ = false;
  const double mass = kInitialMass * unit_;
  for (int kind = 0; kind < kPathKinds; ++kind) {
    double above = 1;
    for (int depth = 0; depth < kDepthGroups; ++depth) {
      Group& group = groups_[kind * kDepthGroups + depth];
      above = group.all.Factor(above, mass);
      for (int bin = 0; bin < kBins; ++bin) {
        group.log_factors[bin] = static_cast<float>(std::log(group.bins[bin].Factor(above, mass)));
      }
    }
  }
}

void Trust::Observe(double predicted, bool accepted) {
  constexpr double kKept = 1 - 1 / kMemory;
  predicted = std::clamp(predicted, 0.0, 1.0);
  accepted_ = kKept * accepted_ + (accepted ? 1 : 0);
  predicted_ = kKept * predicted_ + predicted;
  odds_ = (accepted_ + kPseudoCounts) / (predicted_ + kPseudoCounts);
}

float Trust::Apply(float log_prob) const {
  if (odds_ == 1) return log_prob;
  const double probability = std::exp(static_cast<double>(log_prob));
  const double raised = odds_ * probability;
  return static_cast<float>(std::log(raised / (1 - probability + raised)));
}

}  // namespace bastion
