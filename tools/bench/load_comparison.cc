#include "tools/bench/load_comparison.h"

#include <algorithm>
#include <deque>
#include <utility>

#include "common/base/progress.h"
#include "common/base/status.h"

namespace bastion {
namespace {

// Splits a plan into the parts between which the arms take turns.
std::vector<LoadPlan> Turns(const LoadPlan& plan) {
  if (plan.level.concurrency != 1 || plan.duration < absl::InfiniteDuration()) return {plan};
  std::vector<LoadPlan> turns;
  turns.reserve(plan.requests.size());
  for (const PlannedRequest& request : plan.requests) {
    turns.push_back({plan.level, {request}, plan.max_live});
  }
  return turns;
}

// The first `count` requests of a plan.
LoadPlan Beginning(const LoadPlan& plan, int count) {
  const size_t requests = std::min(plan.requests.size(), static_cast<size_t>(count));
  return {plan.level,
          {plan.requests.begin(), plan.requests.begin() + static_cast<std::ptrdiff_t>(requests)},
          plan.max_live};
}

// All arms at one level.
class LevelRunner {
 public:
  LevelRunner(const LoadPlan& plan, const ComparisonOptions& options, const ArmFactory& make_arm)
      : turns_(Turns(plan)),
        warmup_(Beginning(plan, options.warmup)),
        options_(options),
        make_arm_(make_arm) {
    results_.level = plan.level;
    for (const std::string& policy : options.policies) results_.arms.push_back({policy, {}});
    arms_.resize(options.policies.size());
  }

  [[nodiscard]] int turns() const {
    return static_cast<int>(turns_.size() * options_.policies.size());
  }

  // Calls `progress` after each turn.
  absl::Status RunRound(int round, const BenchSettings& settings,
                        const std::function<void()>& progress) {
    for (size_t i = 0; i < arms_.size(); ++i) {
      if (options_.cold || arms_[i] == nullptr) {
        ASSIGN_OR_RETURN(arms_[i], make_arm_(options_.policies[i]));
        if (!warmup_.requests.empty()) {
          RETURN_IF_ERROR(arms_[i]->Run(warmup_, settings).status());
        }
      }
      results_.arms[i].rounds.emplace_back();
    }
    for (size_t turn = 0; turn < turns_.size(); ++turn) {
      for (size_t place = 0; place < arms_.size(); ++place) {
        const size_t arm = (place + turn + static_cast<size_t>(round)) % arms_.size();
        ASSIGN_OR_RETURN(LoadRun run, arms_[arm]->Run(turns_[turn], settings));
        Append(std::move(run), &results_.arms[arm].rounds.back());
        progress();
      }
    }
    return absl::OkStatus();
  }

  [[nodiscard]] LevelResults TakeResults() { return std::move(results_); }

 private:
  const std::vector<LoadPlan> turns_;
  const LoadPlan warmup_;
  const ComparisonOptions& options_;
  const ArmFactory& make_arm_;
  std::vector<std::unique_ptr<Arm>> arms_;
  LevelResults results_;
};

}  // namespace

absl::StatusOr<std::vector<LevelResults>> CompareLoads(const std::vector<LoadPlan>& plans,
                                                       const ComparisonOptions& options,
                                                       const BenchSettings& settings,
                                                       const ArmFactory& make_arm) {
  std::deque<LevelRunner> levels;
  int turns = 0;
  for (const LoadPlan& plan : plans) {
    levels.emplace_back(plan, options, make_arm);
    turns += levels.back().turns() * options.rounds;
  }
  ProgressBar bar("measuring");
  int done = 0;
  bar.Show(done, turns);
  for (int round = 0; round < options.rounds; ++round) {
    for (LevelRunner& level : levels) {
      RETURN_IF_ERROR(level.RunRound(round, settings, [&] { bar.Show(++done, turns); }));
    }
  }
  std::vector<LevelResults> results;
  results.reserve(levels.size());
  for (LevelRunner& level : levels) results.push_back(level.TakeResults());
  return results;
}

}  // namespace bastion
