// TrainingRun: the loop that all kinds of drafters share. After each step it logs, saves its state,
// and lets the judge measure the drafter, when these are due.
//
// Files in the folder `out`:
//   config.json, model.safetensors   the best drafter that the judge saw, or the last one
//   latest/                          the drafter that the judge saw last
//   training.safetensors             the state of the run
//   training.jsonl                   a line per log entry: losses, hits, τ
//
// Not thread-safe.
#ifndef BASTION_TOOLS_TRAIN_LOOP_TRAINING_RUN_H_
#define BASTION_TOOLS_TRAIN_LOOP_TRAINING_RUN_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "tools/train/loop/judge.h"
#include "tools/train/loop/optimizer.h"
#include "tools/train/loop/schedule.h"
#include "tools/train/loop/training_state.h"
#include "tools/train/models/trainable_drafter.h"

namespace bastion::train {

struct RunOptions {
  std::string out;
  // How long to train: a number of steps, or a time. With a number of steps, a run that was stopped
  // and resumed has the bits of an undisturbed run. One of the two is 0.
  int64_t steps = 0;
  absl::Duration time;
  bool resume = false;  // Continue the run in `out`.
  uint64_t seed = 1;    // Draws the texts and the anchors.
  Schedule schedule = {};
  OptimizerOptions optimizer = {};
  absl::Duration save_every = absl::Minutes(3);
  int judgements = 5;  // How often the judge measures the drafter, at equal distances.
  bool bf16_products = false;
};

class TrainingRun {
 public:
  // Gives the texts of a step, which depend on the step and its draws only.
  using NextBatch = std::function<absl::StatusOr<TextBatch>(int64_t step, Draws& draws)>;
  // Measures the drafter in a folder. Null: no drafter is judged, and the last one is kept.
  using Judge = std::function<absl::StatusOr<std::vector<Verdict>>(const std::string& folder)>;

  // `drafter` and `clock` must outlive the run.
  TrainingRun(TrainableDrafter& drafter, NextBatch next, Judge judge, const RunOptions& options,
              const Clock& clock = Clock::Real());

  // Trains until the steps are made or the time is up. FAILED_PRECONDITION if `out` has a run and
  // `resume` is false, or the other way round; the errors of the functions above and of files.
  [[nodiscard]] absl::Status Run();

  [[nodiscard]] const TrainingCounters& counters() const { return counters_; }

 private:
  // Restores the state of the run in `out`, if any.
  [[nodiscard]] absl::Status Begin();
  [[nodiscard]] absl::Status Step();
  // Lets the judge measure the drafter, and keeps it if it is the best.
  [[nodiscard]] absl::Status Measure();
  [[nodiscard]] absl::Status Save();
  [[nodiscard]] absl::Status Log(const nlohmann::json& entry) const;
  // Logs the mean of the losses since the last entry.
  [[nodiscard]] absl::Status LogLosses(double gradient_norm);
  void ShowProgress(double loss) const;
  // Training time of all runs together.
  [[nodiscard]] absl::Duration Spent() const;
  // The fraction of the run that is over, 0 to 1.
  [[nodiscard]] double Done() const;
  // Judgements that are due by now, without the one at the end.
  [[nodiscard]] int DueJudgements() const;
  [[nodiscard]] std::string Path(const char* name) const;

  TrainableDrafter& drafter_;
  const NextBatch next_;
  const Judge judge_;
  const RunOptions options_;
  const Clock& clock_;
  Optimizer optimizer_;
  TrainingCounters counters_;
  std::vector<StepLoss> unlogged_;
  absl::Duration began_, before_;  // When this run began, and the time of earlier runs.
  absl::Duration paused_;          // Time that the judge took.
  absl::Duration saved_;           // When the state was saved, in Spent().
  int judged_ = 0;                 // Judgements that are due before Done().
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_LOOP_TRAINING_RUN_H_
