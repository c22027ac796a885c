// The parts of results.json and report.md that show how well the policies' models fit: the latency
// model of the BASTION paper on this device (figure 9a), the expected lengths of trees (figure 6),
// and which trees were cut. Plain data; thread-safe: no other state.
#ifndef BASTION_TOOLS_BENCH_MODEL_REPORT_H_
#define BASTION_TOOLS_BENCH_MODEL_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/cost/paper_fit.h"
#include "orchestrator/profile/profile_file.h"
#include "tools/bench/load_figures.h"
#include "tools/bench/measurement.h"

namespace bastion {

// ---- the latency model ----

struct LatencyModel {
  ProfiledTarget profiled;
  std::vector<double> roofline_seconds;  // R(s, c) at each point of the profile.
  PaperFit fit;
};

// INVALID_ARGUMENT if the paper's models cannot be fitted to the profile.
[[nodiscard]] absl::StatusOr<LatencyModel> DescribeLatencyModel(const ProfiledTarget& profiled);

// The field `latency_model` of results.json.
[[nodiscard]] nlohmann::json LatencyModelJson(const LatencyModel& model);
// The errors of the paper's models, beside the paper's figure.
[[nodiscard]] std::string LatencyModelTable(const LatencyModel& model);

// ---- expected and accepted lengths ----

// How the expected length of a tree, Â without the root, relates to its accepted nodes.
struct LengthFit {
  int cycles = 0;  // With a tree of at least one node. Others say nothing.
  double mean_expected = 0, mean_accepted = 0;
  double pearson = 0, spearman = 0;
};
[[nodiscard]] LengthFit FitLengths(const std::vector<PromptMeasurement>& prompts);
[[nodiscard]] nlohmann::json LengthFitJson(const LengthFit& fit);

// One line per policy that verified trees. Empty if none did.
struct NamedLengthFit {
  std::string policy;
  LengthFit fit;
};
[[nodiscard]] std::string LengthFitTable(const std::vector<NamedLengthFit>& fits);

// ---- trees that were cut ----

// A sentence for each policy, level and limit that cut trees: the rows of the forward, the share of
// the batch, the server's or the request's limit. The tokens that a request has left are no such
// limit.
[[nodiscard]] std::vector<std::string> CutWarnings(const std::vector<LevelResults>& levels);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_MODEL_REPORT_H_
