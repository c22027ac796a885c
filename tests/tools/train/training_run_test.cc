// The loop: a resumed run has the bits of an undisturbed one, and the best drafter is kept.
#include "tools/train/loop/training_run.h"
// After torch.h.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temp_folder.h"

namespace bastion::train {
namespace {

// Learns a matrix and a vector that produce the tokens of a text from their places.
class LinearDrafter : public TrainableDrafter {
 public:
  explicit LinearDrafter(int64_t constant = 0) {
    matrix_ = parameters_.AddMap("matrix.weight", 4, 3);
    vector_ = parameters_.AddOnes("vector.weight", 4);
    parameters_.AddConstant("constant", at::full({2}, constant, at::kLong));
  }
  const Parameters& parameters() const override { return parameters_; }
  const std::vector<int>& feature_layers() const override { return layers_; }
  int min_written() const override { return 1; }
  StepLoss AddGradients(const TextBatch& batch, Draws& draws) override {
    const at::Tensor x = batch.features * (1 + draws.Uniform());
    const at::Tensor loss = (at::linear(x, matrix_) + vector_ - 1).square().mean();
    loss.backward();
    return {loss.item<double>(), 4, {0.5}};
  }
  nlohmann::json Config() const override { return {{"architectures", {"LinearDrafter"}}}; }

 private:
  Parameters parameters_{/*seed=*/7};
  const std::vector<int> layers_;
  at::Tensor matrix_, vector_;
};

absl::StatusOr<TextBatch> NextBatch(int64_t /*step*/, Draws& draws) {
  TextBatch batch;
  batch.features = at::empty({5, 3}, at::kFloat);
  for (int i = 0; i < 15; ++i) batch.features.data_ptr<float>()[i] = draws.Normal();
  return batch;
}

std::string FileOf(const testing::TempFolder& folder, const std::string& name) {
  std::ifstream file(folder.path() + "/" + name, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class TrainingRunTest : public ::testing::Test {
 protected:
  void SetUp() override { at::set_num_threads(1); }
  RunOptions Options(int64_t steps, bool resume = false) const {
    RunOptions options;
    options.out = folder_.path();
    options.steps = steps;
    options.resume = resume;
    options.save_every = absl::ZeroDuration();  // After every step.
    return options;
  }
  testing::TempFolder folder_;
};

TEST_F(TrainingRunTest, AStoppedAndResumedRunHasTheBitsOfAnUndisturbedOne) {
  testing::TempFolder other;
  LinearDrafter undisturbed;
  RunOptions options = Options(40);
  options.out = other.path();
  ASSERT_TRUE(TrainingRun(undisturbed, NextBatch, nullptr, options).Run().ok());

  // The process dies in step 17: its text never arrives.
  LinearDrafter stopped;
  int steps = 0;
  const auto dies = [&](int64_t step, Draws& draws) -> absl::StatusOr<TextBatch> {
    if (++steps == 17) return absl::AbortedError("killed");
    return NextBatch(step, draws);
  };
  EXPECT_TRUE(absl::IsAborted(TrainingRun(stopped, dies, nullptr, Options(40)).Run()));
  LinearDrafter resumed;
  const absl::Status status =
      TrainingRun(resumed, NextBatch, nullptr, Options(40, /*resume=*/true)).Run();
  ASSERT_TRUE(status.ok()) << status;

  EXPECT_EQ(FileOf(folder_, "model.safetensors"), FileOf(other, "model.safetensors"));
  for (size_t i = 0; i < resumed.parameters().all().size(); ++i) {
    EXPECT_TRUE(
        at::equal(resumed.parameters().all()[i].value, undisturbed.parameters().all()[i].value));
  }
}

TEST_F(TrainingRunTest, TheDrafterThatTheJudgeLikedBestIsKept) {
  LinearDrafter drafter;
  std::map<double, std::string> files;  // By τ.
  const std::vector<double> taus = {1.5, 2.5, 2.0};
  size_t judged = 0;
  const auto judge = [&](const std::string& folder) -> absl::StatusOr<std::vector<Verdict>> {
    std::ifstream file(folder + "/model.safetensors", std::ios::binary);
    const double tau = taus.at(judged++);
    files[tau] = std::string(std::istreambuf_iterator<char>(file), {});
    return std::vector<Verdict>{{"chain", tau}};
  };
  RunOptions options = Options(30);
  options.judgements = 3;
  ASSERT_TRUE(TrainingRun(drafter, NextBatch, judge, options).Run().ok());
  EXPECT_EQ(judged, 3u);
  EXPECT_EQ(FileOf(folder_, "model.safetensors"), files.at(2.5));
  EXPECT_NE(FileOf(folder_, "model.safetensors"), files.at(2.0));
  EXPECT_TRUE(absl::StrContains(FileOf(folder_, "training.jsonl"), "\"tau\":{\"chain\":2.5}"));
}

TEST_F(TrainingRunTest, ATimedRunEndsWhenItsTimeIsUp) {
  testing::ManualClock clock;
  LinearDrafter drafter;
  const auto slow = [&](int64_t step, Draws& draws) {
    clock.Advance(absl::Seconds(1));
    return NextBatch(step, draws);
  };
  RunOptions options = Options(0);
  options.time = absl::Seconds(25);
  TrainingRun run(drafter, slow, nullptr, options, clock);
  ASSERT_TRUE(run.Run().ok());
  EXPECT_EQ(run.counters().steps, 25);
}

// Its losses are 1, 2, 3, …
class CountingDrafter final : public LinearDrafter {
 public:
  StepLoss AddGradients(const TextBatch& batch, Draws& draws) override {
    StepLoss loss = LinearDrafter::AddGradients(batch, draws);
    loss.loss = ++steps_;
    return loss;
  }

 private:
  double steps_ = 0;
};

TEST_F(TrainingRunTest, AnEntryOfTheLogHasTheMeanLossSinceTheLastOne) {
  CountingDrafter drafter;
  ASSERT_TRUE(TrainingRun(drafter, NextBatch, nullptr, Options(25)).Run().ok());
  std::vector<double> losses;
  std::istringstream log(FileOf(folder_, "training.jsonl"));
  for (std::string line; std::getline(log, line);) {
    losses.push_back(nlohmann::json::parse(line)["loss"]);
  }
  EXPECT_EQ(losses, (std::vector<double>{5.5, 15.5, 23}));
}

TEST_F(TrainingRunTest, AFolderWithARunIsNotOverwritten) {
  LinearDrafter first, second;
  ASSERT_TRUE(TrainingRun(first, NextBatch, nullptr, Options(3)).Run().ok());
  const absl::Status again = TrainingRun(second, NextBatch, nullptr, Options(3)).Run();
  EXPECT_TRUE(absl::IsFailedPrecondition(again)) << again;
  EXPECT_TRUE(absl::StrContains(again.message(), "--resume")) << again;
}

TEST_F(TrainingRunTest, ThereMustBeARunToResume) {
  LinearDrafter drafter;
  const absl::Status status = TrainingRun(drafter, NextBatch, nullptr, Options(3, true)).Run();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST_F(TrainingRunTest, AResumedRunMustHaveTheSameConstants) {
  LinearDrafter first(/*constant=*/1), second(/*constant=*/2);
  ASSERT_TRUE(TrainingRun(first, NextBatch, nullptr, Options(3)).Run().ok());
  const absl::Status resumed = TrainingRun(second, NextBatch, nullptr, Options(5, true)).Run();
  EXPECT_TRUE(absl::IsInvalidArgument(resumed)) << resumed;
  EXPECT_TRUE(absl::StrContains(resumed.message(), "'constant.constant'")) << resumed;
}

TEST_F(TrainingRunTest, ALossThatIsNoNumberEndsTheRun) {
  LinearDrafter drafter;
  const auto broken = [](int64_t, Draws&) -> absl::StatusOr<TextBatch> {
    TextBatch batch;
    batch.features = at::full({5, 3}, std::nan(""), at::kFloat);
    return batch;
  };
  EXPECT_TRUE(absl::IsDataLoss(TrainingRun(drafter, broken, nullptr, Options(3)).Run()));
}

}  // namespace
}  // namespace bastion::train
