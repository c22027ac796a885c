#include "tools/bench/roofline.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/ops/probe.h"
#include "orchestrator/profile/verify_profile.h"

namespace bastion {
namespace {

constexpr int kDrafts = 15;
// First session id of this file. No other code of this program uses ids in this range.
constexpr uint64_t kSession = uint64_t{3} << 61;

// The peaks that the engine reports for its GPU: the bandwidth computed from the memory clock, and
// the measured FLOP/s in the format of the target's weights. Other formats are not measured.
MachineLimits LimitsOfGpu(const verifier::VerifierEngine& engine) {
  const DevicePeaks& peaks = engine.info().peaks;
  MachineLimits limits;
  limits.read_bytes_per_second = peaks.bytes_per_second;
  limits.flops_per_second[engine.cost().format] = peaks.flops_per_second;
  return limits;
}

MachineLimits MeasureLimits(const nn::HostKernels& host) {
  MachineLimits limits;
  limits.read_bytes_per_second = kernels::ReadBandwidth(*host.pool);
  for (const WeightFormat format : kWeightFormats) {
    limits.flops_per_second[format] = kernels::LinearRate(*host.backend, format, *host.pool);
  }
  return limits;
}

// The bytes, FLOPs and lower time bound of a forward of `rows` rows after `context` cached tokens.
ForwardTime BoundOf(const MachineLimits& limits, const nn::ForwardCost& cost, int rows,
                    int context) {
  ForwardTime forward;
  forward.rows = rows;
  forward.context = context;
  forward.bytes = cost.ReadBytes(rows) + static_cast<double>(cost.kv_bytes_per_token) * context;
  forward.flops = 2.0 * rows * static_cast<double>(cost.multiply_adds_per_row);
  const double flops_per_second = limits.RateOf(cost.format);
  forward.bound_seconds = std::max(forward.bytes / limits.read_bytes_per_second,
                                   flops_per_second > 0 ? forward.flops / flops_per_second : 0);
  return forward;
}

absl::Status MeasureVerifies(LocalStages& stages, const RooflineOptions& roofline,
                             RooflineReport& report) {
  ProfileOptions options;
  options.row_counts = options.shared_row_counts = roofline.rows;
  options.further_row_counts.clear();
  options.contexts = roofline.contexts;
  options.session = kSession;
  options.time_limit = absl::Minutes(2);
  ASSIGN_OR_RETURN(const LatencyProfile table,
                   MeasureProfileWithBar(stages.verifier(), "timing the target", options));
  const nn::ForwardCost cost = stages.verifier_engine().cost();
  for (const ProfilePoint& point : table.points) {
    ForwardTime forward = BoundOf(report.limits, cost, point.rows, point.context);
    forward.name = point.rows == 1 ? "decode" : "verify";
    forward.seconds = point.seconds;
    report.forwards.push_back(forward);
  }
  return absl::OkStatus();
}

// Alternates plain decode steps and drafts, like a decode cycle, and times the drafts.
absl::Status MeasureDraft(LocalStages& stages, RooflineReport& report) {
  const SequenceId sequence = {kSession + 1, 0};
  const int context = report.forwards.front().context;
  RETURN_IF_ERROR(stages.verifier().Open(sequence, SamplingParams()));
  const std::vector<TokenId> prompt(context, 0);
  RETURN_IF_ERROR(stages.verifier().Prefill({sequence, 0, prompt}).status());
  Frontier frontier;
  frontier.sequence = sequence;
  frontier.committed = context;
  frontier.new_tokens = prompt;
  std::vector<double> seconds;
  for (int i = 0; i < kDrafts; ++i) {
    StopWatch watch;
    RETURN_IF_ERROR(stages.drafter().Expand({frontier}).status());
    seconds.push_back(absl::ToDoubleSeconds(watch.Lap()));
    const Forest step = {{sequence, frontier.committed, DraftTree(frontier.root)}};
    ASSIGN_OR_RETURN(const VerifyResult verified, stages.verifier().Verify(step, {}));
    RETURN_IF_ERROR(verified.outcomes.at(0).status);
    frontier.new_tokens = {frontier.root};
    frontier.root = verified.outcomes[0].acceptance.next;
    ++frontier.committed;
  }
  stages.drafter().Close(sequence);
  stages.verifier().Close(sequence);
  ASSIGN_OR_RETURN(const DrafterInfo drafter, stages.drafter().Info());
  const nn::ForwardCost cost = stages.drafter_engine().cost();
  ForwardTime forward = BoundOf(report.limits, cost, drafter.positions + 1, context);
  forward.name = "draft";
  forward.seconds = Median(seconds);
  report.forwards.push_back(forward);
  return absl::OkStatus();
}

}  // namespace

nlohmann::json RooflineReport::Json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const ForwardTime& forward : forwards) {
    rows.push_back({{"forward", forward.name},
                    {"rows", forward.rows},
                    {"context", forward.context},
                    {"bytes", forward.bytes},
                    {"flops", forward.flops},
                    {"bound_seconds", forward.bound_seconds},
                    {"seconds", forward.seconds}});
  }
  nlohmann::json report = {{"device", device},
                           {"read_bytes_per_second", limits.read_bytes_per_second},
                           {"forwards", rows}};
  for (const auto& [format, rate] : limits.flops_per_second) {
    if (rate > 0) report[absl::StrCat(Name(format), "_flops_per_second")] = rate;
  }
  return report;
}

absl::StatusOr<RooflineReport> MeasureRoofline(LocalStages& stages,
                                               const RooflineOptions& options) {
  RooflineReport report;
  report.device = stages.verifier_engine().info().device;
  report.limits = stages.on_gpu() ? LimitsOfGpu(stages.verifier_engine())
                                  : MeasureLimits(stages.device()->host());
  RETURN_IF_ERROR(MeasureVerifies(stages, options, report));
  RETURN_IF_ERROR(MeasureDraft(stages, report));
  return report;
}

}  // namespace bastion
