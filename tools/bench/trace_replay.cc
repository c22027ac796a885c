#include "tools/bench/trace_replay.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

#include "common/base/status.h"
#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cost/make_estimator.h"

namespace bastion {
namespace {

// Sizes with fewer cycles are not compared.
constexpr int kMinCycles = 5;

// The smallest value that at least a share of `q` of the values does not exceed.
double Quantile(std::vector<double> values, double q) {
  const double rank = std::ceil(q * static_cast<double>(values.size()));
  const auto at =
      values.begin() + std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(rank) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

// A predictor of verify times, in seconds.
class Predictor {
 public:
  virtual ~Predictor() = default;
  [[nodiscard]] virtual double Predict(const VerifySize& size, bool drafted) const = 0;
  virtual void Observe(const CycleTrace& /*cycle*/) {}
};

VerifySize SizeOf(const CycleTrace& cycle) { return {cycle.sequences, cycle.rows, cycle.context}; }

// An estimator for one sequence, used as if all rows belonged to it.
class AlonePredictor final : public Predictor {
 public:
  explicit AlonePredictor(std::unique_ptr<LatencyEstimator> estimator)
      : estimator_(std::move(estimator)) {}
  double Predict(const VerifySize& size, bool /*drafted*/) const override {
    return absl::ToDoubleSeconds(estimator_->Predict(size.rows, size.context));
  }
  void Observe(const CycleTrace& cycle) override {
    estimator_->Observe(cycle.rows, cycle.context, absl::Seconds(cycle.stages.verify));
  }

 private:
  const std::unique_ptr<LatencyEstimator> estimator_;
};

class BatchPredictor final : public Predictor {
 public:
  explicit BatchPredictor(CostModel model) : model_(std::move(model)) {}
  double Predict(const VerifySize& size, bool drafted) const override {
    return absl::ToDoubleSeconds(model_.PredictVerify(size, drafted));
  }
  void Observe(const CycleTrace& cycle) override {
    const StageSeconds& stages = cycle.stages;
    TimingTrace trace;
    trace.queue = absl::Seconds(stages.verify_queue);
    trace.forward = absl::Seconds(stages.verify);
    trace.commit = absl::Seconds(stages.commit);
    trace.audit = absl::Seconds(stages.audit);
    trace.rows = cycle.rows;
    trace.experts = cycle.experts;
    const absl::Duration round_trip =
        trace.queue + trace.forward + trace.commit + trace.audit + absl::Seconds(stages.transfer);
    model_.ObserveVerify(SizeOf(cycle), cycle.drafts > 0, trace,
                         {round_trip, absl::Seconds(stages.tree)});
  }

 private:
  CostModel model_;
};

// The mean measured time of calls of the same size.
class HindsightPredictor final : public Predictor {
 public:
  explicit HindsightPredictor(const std::vector<CycleTrace>& cycles) {
    for (const CycleTrace& cycle : cycles) {
      auto& [sum, count] = sums_[KeyOf(SizeOf(cycle), cycle.drafts > 0)];
      sum += cycle.stages.verify;
      ++count;
    }
  }
  double Predict(const VerifySize& size, bool drafted) const override {
    const auto found = sums_.find(KeyOf(size, drafted));
    return found == sums_.end() ? 0 : found->second.first / found->second.second;
  }

 private:
  using Key = std::tuple<int, int, bool>;  // Sequences, rows, drafted.
  static Key KeyOf(const VerifySize& size, bool drafted) {
    return {size.sequences, size.rows, drafted};
  }
  std::map<Key, std::pair<double, int>> sums_;
};

// What is known about the cycles of one size.
struct Size {
  int nodes = 0;
  bool drafted = false;                             // Most of the cycles drafted.
  double verify = 0, other_stages = 0, tokens = 0;  // Means.

  [[nodiscard]] double rate() const { return tokens / (verify + other_stages); }
};

double OtherStages(const StageSeconds& stages) {
  return stages.draft + stages.tree + stages.verify_queue + stages.commit + stages.audit +
         stages.transfer;
}

// The sizes to choose from, by number of sequences.
std::map<int, std::vector<Size>> SizesOf(const std::vector<CycleTrace>& cycles) {
  std::map<std::pair<int, int>, std::vector<const CycleTrace*>> by_size;
  for (const CycleTrace& cycle : cycles) {
    by_size[{cycle.sequences, cycle.nodes()}].push_back(&cycle);
  }
  std::map<int, std::vector<Size>> sizes;
  for (const auto& [key, members] : by_size) {
    const auto count = static_cast<double>(members.size());
    if (count < kMinCycles) continue;
    Size size = {.nodes = key.second};
    double drafted = 0;
    for (const CycleTrace* cycle : members) {
      size.verify += cycle->stages.verify / count;
      size.other_stages += OtherStages(cycle->stages) / count;
      size.tokens += cycle->committed / count;
      drafted += cycle->drafts > 0 ? 1 / count : 0;
    }
    size.drafted = drafted > 0.5;
    sizes[key.first].push_back(size);
  }
  return sizes;
}

double BestRate(const std::vector<Size>& sizes) {
  double best = 0;
  for (const Size& size : sizes) best = std::max(best, size.rate());
  return best;
}

// The measured rate of the size that `predictor` would choose for `cycle`.
double ChosenRate(const std::vector<Size>& sizes, const CycleTrace& cycle,
                  const Predictor& predictor) {
  double best = -1, chosen = 0;
  for (const Size& size : sizes) {
    const VerifySize call = {cycle.sequences, cycle.sequences + size.nodes, cycle.context};
    const double seconds = predictor.Predict(call, size.drafted) + size.other_stages;
    const double expected = seconds > 0 ? size.tokens / seconds : 0;
    if (expected > best) {
      best = expected;
      chosen = size.rate();
    }
  }
  return chosen;
}

// The errors and regrets of one estimator.
class Score {
 public:
  void AddError(double predicted, double measured) {
    squares_ += (predicted - measured) * (predicted - measured);
    errors_.push_back(std::abs(predicted - measured) / measured);
  }
  void AddRegret(double chosen, double best) {
    regret_ += best - chosen;
    best_ += best;
    ++choices_;
  }
  [[nodiscard]] int choices() const { return choices_; }
  [[nodiscard]] EstimatorResult Result(const std::string& name) const {
    EstimatorResult result;
    result.name = name;
    result.rmse_seconds = std::sqrt(squares_ / static_cast<double>(errors_.size()));
    result.median_error = Quantile(errors_, 0.5);
    result.p95_error = Quantile(errors_, 0.95);
    if (choices_ > 0) {
      result.regret_tokens_per_second = regret_ / choices_;
      result.regret_share = regret_ / best_;
    }
    return result;
  }

 private:
  double squares_ = 0, regret_ = 0, best_ = 0;
  int choices_ = 0;
  std::vector<double> errors_;
};

using MakePredictor = std::function<absl::StatusOr<std::unique_ptr<Predictor>>()>;

// Runs an estimator over the trace, with a new one for each cost model of the recording.
absl::StatusOr<Score> ScoreOf(const Trace& trace, const std::map<int, std::vector<Size>>& sizes,
                              const MakePredictor& make) {
  std::map<int, std::unique_ptr<Predictor>> predictors;  // By CycleTrace::model.
  Score score;
  for (const CycleTrace& cycle : trace.cycles) {
    std::unique_ptr<Predictor>& predictor = predictors[cycle.model];
    if (predictor == nullptr) {
      ASSIGN_OR_RETURN(predictor, make());
    }
    score.AddError(predictor->Predict(SizeOf(cycle), cycle.drafts > 0), cycle.stages.verify);
    const auto choices = sizes.find(cycle.sequences);
    if (choices != sizes.end() && choices->second.size() > 1) {
      score.AddRegret(ChosenRate(choices->second, cycle, *predictor), BestRate(choices->second));
    }
    predictor->Observe(cycle);
  }
  return score;
}

MakePredictor Alone(const std::string& name, const Roofline& roofline,
                    const LatencyProfile& table) {
  return [=, &table]() -> absl::StatusOr<std::unique_ptr<Predictor>> {
    ASSIGN_OR_RETURN(auto estimator, MakeEstimator(name, roofline, table));
    return std::make_unique<AlonePredictor>(std::move(estimator));
  };
}

MakePredictor BatchModel(const TraceHeader& header) {
  return [&header]() -> absl::StatusOr<std::unique_ptr<Predictor>> {
    ASSIGN_OR_RETURN(CostModel model, CostModel::Fit(header.target, header.profile));
    return std::make_unique<BatchPredictor>(std::move(model));
  };
}

// The recorded predictions have no regret: they exist for the chosen sizes only.
EstimatorResult RecordedResult(const Trace& trace) {
  Score score;
  for (const CycleTrace& cycle : trace.cycles) {
    score.AddError(cycle.predicted.verify, cycle.stages.verify);
  }
  return score.Result("recorded");
}

}  // namespace

absl::StatusOr<ReplayReport> ReplayTrace(const Trace& trace) {
  const TraceHeader& header = trace.header;
  ASSIGN_OR_RETURN(const Roofline roofline,
                   Roofline::Make(header.target.dims, header.target.peaks));
  std::vector<std::pair<std::string, MakePredictor>> makers;
  for (const char* name : {"roofline", "static", "ema", "ema+calib", "staircase"}) {
    makers.emplace_back(name, Alone(name, roofline, header.profile));
  }
  makers.emplace_back("batch", BatchModel(header));
  makers.emplace_back("mean of size", [&]() -> absl::StatusOr<std::unique_ptr<Predictor>> {
    return std::make_unique<HindsightPredictor>(trace.cycles);
  });
  const std::map<int, std::vector<Size>> sizes = SizesOf(trace.cycles);
  ReplayReport report;
  report.device = header.target.device;
  report.cycles = static_cast<int>(trace.cycles.size());
  for (const auto& [name, make] : makers) {
    ASSIGN_OR_RETURN(const Score score, ScoreOf(trace, sizes, make));
    report.estimators.push_back(score.Result(name));
    report.compared_cycles = score.choices();
  }
  report.estimators.push_back(RecordedResult(trace));
  return report;
}

nlohmann::json ReplayReport::Json() const {
  nlohmann::json rows = nlohmann::json::array();
  for (const EstimatorResult& result : estimators) {
    rows.push_back({{"name", result.name},
                    {"rmse_seconds", result.rmse_seconds},
                    {"median_error", result.median_error},
                    {"p95_error", result.p95_error}});
    if (result.name == "recorded" || compared_cycles == 0) continue;
    rows.back()["regret_tokens_per_second"] = result.regret_tokens_per_second;
    rows.back()["regret_share"] = result.regret_share;
  }
  return {{"device", device},
          {"cycles", cycles},
          {"compared_cycles", compared_cycles},
          {"estimators", rows}};
}

}  // namespace bastion
