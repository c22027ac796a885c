#include "tools/train/loop/training_run.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "tools/train/models/drafter_files.h"
#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr int kLogSteps = 10;
constexpr char kState[] = "training.safetensors";
constexpr char kLog[] = "training.jsonl";

void Add(const std::vector<double>& values, std::vector<double>& sums) {
  sums.resize(values.size());
  for (size_t i = 0; i < values.size(); ++i) sums[i] += values[i];
}

}  // namespace

TrainingRun::TrainingRun(TrainableDrafter& drafter, NextBatch next, Judge judge,
                         const RunOptions& options, const Clock& clock)
    : drafter_(drafter),
      next_(std::move(next)),
      judge_(std::move(judge)),
      options_(options),
      clock_(clock),
      optimizer_(drafter.parameters(), options.optimizer) {
  CHECK((options.steps > 0) != (options.time > absl::ZeroDuration()));
}

std::string TrainingRun::Path(const char* name) const {
  return absl::StrCat(options_.out, "/", name);
}

absl::Duration TrainingRun::Spent() const { return before_ + clock_.Now() - began_ - paused_; }

double TrainingRun::Done() const {
  const double done = options_.steps > 0 ? static_cast<double>(counters_.steps) / options_.steps
                                         : absl::FDivDuration(Spent(), options_.time);
  return std::min(done, 1.0);
}

int TrainingRun::DueJudgements() const {
  return static_cast<int>(std::floor(Done() * options_.judgements));
}

absl::Status TrainingRun::Begin() {
  std::error_code error;
  const bool exists = std::filesystem::exists(Path(kState), error);
  if (exists && !options_.resume) {
    return absl::FailedPreconditionError(
        absl::StrCat(options_.out,
                     ": has a training run already; pass --resume to continue it, or train into "
                     "another folder"));
  }
  if (!exists && options_.resume) {
    return absl::FailedPreconditionError(
        absl::StrCat(Path(kState), ": there is no training run to resume"));
  }
  std::filesystem::create_directories(options_.out, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out ", options_.out, ": cannot create the folder: ", error.message()));
  }
  if (exists) {
    ASSIGN_OR_RETURN(counters_, LoadTrainingState(drafter_.parameters(), optimizer_, Path(kState)));
  }
  before_ = absl::Nanoseconds(counters_.nanoseconds);
  began_ = clock_.Now();
  saved_ = before_;
  judged_ = DueJudgements();
  return absl::OkStatus();
}

absl::Status TrainingRun::Run() {
  RETURN_IF_ERROR(Begin());
  while (Done() < 1) {
    RETURN_IF_ERROR(Step());
    if (Done() < 1 && DueJudgements() > judged_) {
      RETURN_IF_ERROR(Measure());
    }
    if (Spent() - saved_ >= options_.save_every) {
      RETURN_IF_ERROR(Save());
    }
  }
  RETURN_IF_ERROR(Measure());
  return Save();
}

absl::Status TrainingRun::Step() {
  const double done = Done();
  const int64_t step = counters_.steps + 1;  // Step 0 draws the first weights.
  Draws draws(options_.seed, step);
  ASSIGN_OR_RETURN(const TextBatch batch, next_(step, draws));
  drafter_.BeginStep(step, done);
  const Bf16Products precision(options_.bf16_products);  // For the optimizer, too.
  const StepLoss loss = drafter_.AddGradients(batch, draws);
  if (!std::isfinite(loss.loss)) {
    return absl::DataLossError(
        absl::StrCat("the loss of step ", step, " is ", loss.loss,
                     "; use a lower --map_rate and --vector_rate, or --clip"));
  }
  const double norm = optimizer_.Step(options_.schedule.RateAt(done));
  counters_.steps = step;
  counters_.labels += loss.labels;
  unlogged_.push_back(loss);
  if (counters_.steps % kLogSteps != 0 && Done() < 1) return absl::OkStatus();
  return LogLosses(norm);
}

absl::Status TrainingRun::LogLosses(double gradient_norm) {
  StepLoss mean;
  for (const StepLoss& loss : unlogged_) {
    mean.loss += loss.loss;
    mean.rank_loss += loss.rank_loss;
    mean.pair_loss += loss.pair_loss;
    Add(loss.hits, mean.hits);
    Add(loss.pair_hits, mean.pair_hits);
  }
  const auto count = static_cast<double>(unlogged_.size());
  mean.loss /= count;
  mean.rank_loss /= count;
  mean.pair_loss /= count;
  for (double& hits : mean.hits) hits /= count;
  for (double& hits : mean.pair_hits) hits /= count;
  unlogged_.clear();
  ShowProgress(mean.loss);
  nlohmann::json entry = {{"step", counters_.steps},    {"seconds", absl::ToDoubleSeconds(Spent())},
                          {"labels", counters_.labels}, {"loss", mean.loss},
                          {"hits", mean.hits},          {"gradient_norm", gradient_norm}};
  if (mean.rank_loss > 0) entry["rank_loss"] = mean.rank_loss;
  if (!mean.pair_hits.empty()) {
    entry["pair_loss"] = mean.pair_loss;
    entry["pair_hits"] = mean.pair_hits;
  }
  return Log(entry);
}

absl::Status TrainingRun::Measure() {
  const absl::Duration pause = clock_.Now();
  const absl::Cleanup resume = [&] { paused_ += clock_.Now() - pause; };
  judged_ = DueJudgements();
  const double seconds = absl::ToDoubleSeconds(Spent());
  if (judge_ == nullptr) return Done() < 1 ? absl::OkStatus() : SaveDrafter(drafter_, options_.out);
  RETURN_IF_ERROR(SaveDrafter(drafter_, Path("latest")));
  ASSIGN_OR_RETURN(const std::vector<Verdict> verdicts, judge_(Path("latest")));
  nlohmann::json tau;
  std::string text;
  for (const Verdict& verdict : verdicts) {
    tau[verdict.policy] = verdict.tau;
    absl::StrAppendFormat(&text, " %s %.3f", verdict.policy, verdict.tau);
  }
  LOG(INFO) << "step " << counters_.steps << ": tau" << text;
  RETURN_IF_ERROR(Log({{"step", counters_.steps}, {"seconds", seconds}, {"tau", std::move(tau)}}));
  const auto score = static_cast<int64_t>(std::llround(1e6 * verdicts.front().tau));
  if (score <= counters_.best_millionths) return absl::OkStatus();
  counters_.best_millionths = score;
  return SaveDrafter(drafter_, options_.out);
}

absl::Status TrainingRun::Save() {
  counters_.nanoseconds = absl::ToInt64Nanoseconds(Spent());
  RETURN_IF_ERROR(SaveTrainingState(drafter_.parameters(), optimizer_, counters_, Path(kState)));
  saved_ = Spent();
  return absl::OkStatus();
}

absl::Status TrainingRun::Log(const nlohmann::json& entry) const {
  std::ofstream file(Path(kLog), std::ios::binary | std::ios::app);
  file << entry.dump() << '\n';
  file.close();
  if (!file.fail()) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot write ", Path(kLog)));
}

void TrainingRun::ShowProgress(double loss) const {
  if (isatty(STDERR_FILENO) != 1) return;
  constexpr int kWidth = 30;
  const double done = Done();
  const auto filled = static_cast<size_t>(kWidth * done);
  const absl::Duration left = done > 0 ? Spent() * ((1 - done) / done) : absl::ZeroDuration();
  const std::string line = absl::StrFormat(
      "\r\033[K[%s%s] %3.0f %%, step %d, loss %.3f, %s left", std::string(filled, '#'),
      std::string(kWidth - filled, ' '), 100 * done, counters_.steps, loss,
      absl::FormatDuration(absl::Trunc(left, absl::Seconds(1))));
  std::fputs(line.c_str(), stderr);
  if (done >= 1) std::fputs("\n", stderr);
}

}  // namespace bastion::train
