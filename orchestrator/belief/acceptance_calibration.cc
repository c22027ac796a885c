#include "orchestrator/belief/acceptance_calibration.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

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
  // The logarithms of 15/16, 7/8 and 3/4.
  constexpr std::array<float, kUpperBins - 1> kUpperEdges = {-0.0645385f, -0.1335314f, -0.2876821f};
  const float halvings = -log_prob / kLog2;
  if (halvings >= 1) {
    return kUpperBins - 1 + static_cast<int>(std::min(halvings, float{kBins - kUpperBins}));
  }
  int bin = 0;
  while (bin < kUpperBins - 1 && log_prob < kUpperEdges[bin]) ++bin;
  return bin;
}

float AcceptanceCalibration::LogFactor(PathKind kind, int depth, float log_prob) const {
  return groups_[GroupOf(kind, depth)].log_factors[BinOf(log_prob)];
}

void AcceptanceCalibration::Observe(PathKind kind, int depth, float log_prob, double trusted,
                                    bool accepted) {
  stale_ = true;
  Group& group = groups_[GroupOf(kind, depth)];
  for (Counts* counts : {&group.all, &group.bins[BinOf(log_prob)]}) {
    counts->predicted += unit_ * trusted;
    if (accepted) counts->accepted += unit_;
  }
}

void AcceptanceCalibration::EndCycle() {
  unit_ /= 1 - 1 / kMemory;
  constexpr double kLargestUnit = 1e100;
  if (unit_ < kLargestUnit) return;
  ForEachCounts(groups_, [this](Counts& counts) {
    counts.accepted /= unit_;
    counts.predicted /= unit_;
  });
  unit_ = 1;
}

void AcceptanceCalibration::Refresh() {
  if (!stale_) return;
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

std::vector<float> AcceptanceCalibration::ToCounts() const {
  std::vector<float> values;
  values.reserve(counts_size());
  ForEachCounts(groups_, [&](const Counts& counts) {
    values.push_back(static_cast<float>(counts.accepted / unit_));
    values.push_back(static_cast<float>(counts.predicted / unit_));
  });
  return values;
}

absl::StatusOr<AcceptanceCalibration> AcceptanceCalibration::FromCounts(
    absl::Span<const float> counts) {
  if (counts.size() != counts_size()) {
    return absl::InvalidArgumentError(absl::StrCat("acceptance calibration: ", counts.size(),
                                                   " counts, expected ", counts_size()));
  }
  constexpr float kMaxCount = 1e9f;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] >= 0 && counts[i] <= kMaxCount) continue;  // False for NaN.
    return absl::InvalidArgumentError(
        absl::StrCat("acceptance calibration: count ", i, " is ", counts[i]));
  }
  AcceptanceCalibration calibration;
  size_t next = 0;
  ForEachCounts(calibration.groups_, [&](Counts& into) {
    into.accepted = counts[next++];
    into.predicted = counts[next++];
  });
  calibration.stale_ = true;
  calibration.Refresh();
  return calibration;
}

void Trust::Observe(double predicted, bool accepted) {
  choices_.Add(accepted ? 1 : 0, std::clamp(predicted, 0.0, 1.0), kMemory);
  odds_ = choices_.Shrunk(kPseudoCounts);
}

float Trust::Apply(float log_prob) const {
  if (odds_ == 1) return log_prob;
  const double probability = std::exp(static_cast<double>(log_prob));
  const double raised = odds_ * probability;
  return static_cast<float>(std::log(raised / (1 - probability + raised)));
}

}  // namespace bastion
