// Replayed acceptance from a profile to measured committed lengths, on tiny random pairs: no text
// changes, and chains and trees commit what the profile says, for one request and for eight.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <queue>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "drafter_service/replay/acceptance_profile.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"
#include "tools/bench/bench_session.h"
#include "tools/bench/load_comparison.h"
#include "tools/bench/same_texts.h"
#include "tools/bench/text_files.h"

namespace bastion {
namespace {

using drafter::AcceptanceProfile;
using drafter::ProfiledBlock;

constexpr int kPrompts = 48, kTokens = 200, kNodes = 12;
constexpr int kBlocks = 32, kPositions = 6;

// Calibrated: the rank is drawn from the probabilities that the block states.
AcceptanceProfile CalibratedProfile() {
  std::mt19937 random(3);
  AcceptanceProfile profile = {"calibrated", "drawn", {}};
  for (int b = 0; b < kBlocks; ++b) {
    ProfiledBlock& block = profile.blocks.emplace_back();
    for (int p = 0; p < kPositions; ++p) {
      block.top.push_back(std::uniform_real_distribution<float>(0.3F, 0.95F)(random));
      block.ranks.push_back(std::geometric_distribution<int>(block.top.back())(random));
    }
  }
  return profile;
}

// The accepted nodes of the `nodes` most probable paths of ranks: a second implementation. At most
// `positions` levels.
int AcceptedNodes(const ProfiledBlock& block, int nodes, int positions) {
  // The log-probability, the depth, the rank, and whether all ranks above it are the target's.
  using Entry = std::tuple<double, int, int, bool>;
  std::priority_queue<Entry> offered;
  offered.emplace(std::log(block.top[0]), 1, 0, true);
  int accepted = 0;
  for (int i = 0; i < nodes && !offered.empty(); ++i) {
    const auto [score, depth, rank, on_path] = offered.top();
    offered.pop();
    const bool is_true = on_path && rank == block.ranks[depth - 1];
    if (is_true) accepted = std::max(accepted, depth);
    offered.emplace(score + std::log1p(-block.top[depth - 1]), depth, rank + 1, on_path);
    if (depth < positions) {
      offered.emplace(score + std::log(block.top[depth]), depth + 1, 0, is_true);
    }
  }
  return accepted;
}

class ReplayedAcceptanceTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(profile_.Write(folder_.File("profile.json")).ok());
    SessionOptions options;
    options.local.target_folder = testing::GoldenFolder(GetParam()) + "/target";
    options.local.drafter_folder = testing::GoldenFolder(GetParam()) + "/drafter";
    options.local.formats.weights = "fp32";
    options.local.device.threads = 2;
    options.local.replayed_profile = folder_.File("profile.json");
    options.max_live = 8;
    auto session = BenchSession::Open(options);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
    std::mt19937 random(5);
    for (int i = 0; i < kPrompts; ++i) {
      BenchPrompt& prompt = prompts_.emplace_back();
      prompt.id = std::to_string(i);
      for (int t = 0; t < 16; ++t) prompt.tokens.push_back(static_cast<TokenId>(random() % 72));
    }
  }

  // What the profile commits per cycle, with trees of `nodes` nodes, or a chain.
  [[nodiscard]] double Expected(const std::string& policy, int positions) const {
    double sum = 0;
    for (const ProfiledBlock& block : profile_.blocks) {
      int accepted = 0;
      if (policy == "chain") {
        while (accepted < positions && block.ranks[accepted] == 0) ++accepted;
      } else {
        accepted = AcceptedNodes(block, kNodes, positions);
      }
      sum += 1 + accepted;
    }
    return sum / kBlocks;
  }

  // The mean committed length of the cycles that the end of the text cannot cut. Whether a cycle
  // counts depends only on those before it, so the mean has no bias.
  static double Measured(const ArmResults& arm) {
    double sum = 0;
    int cycles = 0;
    for (const PromptMeasurement& request : arm.rounds.at(0).requests) {
      int begin = 0;
      for (const MeasuredCycle& cycle : request.cycles) {
        if (begin + kPositions + 1 > kTokens) break;
        begin += cycle.committed_length;
        ++cycles;
      }
      sum += begin;
    }
    return sum / cycles;
  }

  const testing::TempFolder folder_;
  const AcceptanceProfile profile_ = CalibratedProfile();
  std::unique_ptr<BenchSession> session_;
  std::vector<BenchPrompt> prompts_;
};

TEST_P(ReplayedAcceptanceTest, ChainsAndTreesCommitWhatTheProfileSaysAndNoTextChanges) {
  BenchSettings settings;
  settings.max_new_tokens = kTokens;
  settings.ignore_eos = true;
  const auto plans = PlanLoads({.concurrency = {1, 8}}, prompts_, settings);
  ASSERT_TRUE(plans.ok()) << plans.status();
  ASSERT_TRUE(LearnTexts(*plans, settings, {session_.get()}).ok());
  const std::string tree = "fixed:" + std::to_string(kNodes);
  const auto levels =
      CompareLoads(*plans, {.policies = {"ar", "chain", tree}}, settings, session_->arms());
  ASSERT_TRUE(levels.ok()) << levels.status();
  EXPECT_TRUE(CheckSameTexts(*levels).ok());
  const auto info = session_->stages()->drafter().Info();
  ASSERT_TRUE(info.ok());
  // A drafter that expands nodes reaches any depth.
  const int positions = info->expands_nodes ? kPositions : std::min(info->positions, kPositions);
  for (const LevelResults& level : *levels) {
    for (const ArmResults& arm : level.arms) {
      if (arm.policy == "ar" || (arm.policy == "chain" && info->expands_nodes)) continue;
      const double expected = Expected(arm.policy, positions);
      EXPECT_NEAR(Measured(arm) / expected, 1, 0.01)
          << arm.policy << ", " << level.level.ToString();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Pairs, ReplayedAcceptanceTest,
                         ::testing::Values("gqa2_untied_draft2", "gqa4_tied_draft5"));

}  // namespace
}  // namespace bastion
