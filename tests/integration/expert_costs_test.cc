// The latency model of targets with experts, on the engine itself: the experts that it reports, and
// how well its verify times are predicted.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <map>
#include <random>

#include "orchestrator/cost/cost_model.h"
#include "orchestrator/cost/expert_cost.h"
#include "orchestrator/profile/verify_profile.h"
#include "tests/support/golden_file.h"
#include "tests/support/random_experts.h"
#include "tools/inprocess/local_stages.h"

namespace bastion {
namespace {

constexpr SequenceId kText = {1, 0};

std::unique_ptr<LocalStages> Load(const std::string& target) {
  LocalOptions options;
  options.target_folder = target;
  options.device = {.threads = 2};
  options.memory.kv_tokens = 4096;
  auto stages = LocalStages::Create(options);
  EXPECT_TRUE(stages.ok()) << stages.status();
  return *std::move(stages);
}

LatencyProfile ProfileOf(LocalStages& stages) {
  ProfileOptions options;
  options.row_counts = {1, 2, 4, 8, 16, 24, 32};
  options.contexts = {16, 256};
  options.time_limit = absl::Seconds(5);
  options.session = uint64_t{1} << 40;
  auto table = MeasureProfileWithBar(stages.verifier(), "profiling", options);
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

// One call, as it was predicted and measured.
struct Call {
  int rows = 0;
  double predicted = 0, seconds = 0;
  double expected = 0, experts = 0;
};

// The errors |predicted − measured| / measured.
class Errors {
 public:
  void Add(double predicted, double measured) {
    errors_.push_back(std::abs(predicted - measured) / measured);
  }
  double Quantile(double quantile) {
    const double last = static_cast<double>(errors_.size()) - 1;
    const auto place = errors_.begin() + static_cast<std::ptrdiff_t>(quantile * last);
    std::nth_element(errors_.begin(), place, errors_.end());
    return *place;
  }

 private:
  std::vector<double> errors_;
};

// Verifies chains of a text of few different tokens, and predicts the calls.
class TextOfFewTokens {
 public:
  TextOfFewTokens(Verifier& verifier, const LatencyProfile& table)
      : verifier_(verifier),
        costs_(*CostModel::Fit(*verifier.Info(), table)),
        experts_(ExpertCost::Make(table)) {
    EXPECT_TRUE(verifier_.Open(kText, SamplingParams()).ok());
    EXPECT_TRUE(verifier_.Prefill({kText, 0, Tokens(32)}).ok());
    cached_ = 32;
  }
  ~TextOfFewTokens() { verifier_.Close(kText); }
  TextOfFewTokens(const TextOfFewTokens&) = delete;
  TextOfFewTokens& operator=(const TextOfFewTokens&) = delete;

  Call Verify(int rows) {
    const std::vector<TokenId> tokens = Tokens(rows);
    DraftTree chain(tokens[0]);
    for (NodeIndex parent = 0; parent + 1 < rows; ++parent) {
      chain.Add(parent, tokens[parent + 1], chain.log_score(parent) - 1.0f);
    }
    const VerifySize size = {.rows = rows, .context = cached_};
    const auto result = verifier_.Verify({{kText, cached_, chain}}, {});
    EXPECT_TRUE(result.ok()) << result.status();
    cached_ += result->outcomes.at(0).acceptance.committed_length();
    const TimingTrace& trace = result->trace;
    const Call call = {rows, absl::ToDoubleSeconds(costs_.PredictVerify(size, false)),
                       absl::ToDoubleSeconds(trace.verify()), experts_->Expected(rows),
                       trace.experts};
    costs_.ObserveVerify(size, false, trace, {trace.verify(), {}});
    experts_->Observe(rows, trace.experts);
    return call;
  }

 private:
  std::vector<TokenId> Tokens(int count) {
    std::vector<TokenId> tokens(count);
    for (TokenId& token : tokens) token = 10 + static_cast<TokenId>(random_() % 3);
    return tokens;
  }

  Verifier& verifier_;
  CostModel costs_;
  std::shared_ptr<ExpertCost> experts_;  // The same as that of costs_.
  std::mt19937 random_{1};
  int cached_ = 0;
};

TEST(ExpertCostsTest, TheProfileKnowsTheExpertsThatATinyTargetTouches) {
  const auto stages = Load(testing::GoldenFolder("moe_normalized") + "/target");
  const LatencyProfile table = ProfileOf(*stages);
  ASSERT_TRUE(table.has_experts());
  double most = 0;
  for (const ProfilePoint& point : table.points) {
    if (point.rows == 1) {
      EXPECT_EQ(point.experts, 2);  // Every row chooses 2 of 6.
    }
    EXPECT_LE(point.experts, 6);
    most = std::max(most, point.experts);
  }
  EXPECT_GT(most, 5);
  EXPECT_GE(table.expert_seconds, 0);
}

TEST(ExpertCostsTest, ADenseTargetReportsNone) {
  const auto stages = Load(testing::GoldenFolder("gqa2_untied_draft2") + "/target");
  const LatencyProfile table = ProfileOf(*stages);
  EXPECT_FALSE(table.has_experts());
  EXPECT_EQ(table.expert_seconds, 0);
}

// Predicts and measures the calls of a text. True if the errors of the times are within their bars.
bool PredictsTimesOfAText() {
  // Two layers of 64 experts of 0.4 MB each: reading them takes most of the time.
  const testing::RandomExperts target({.experts = 64, .chosen = 4, .hidden = 256});
  const auto stages = Load(target.folder());
  LatencyProfile table = ProfileOf(*stages);
  // A busy machine may hide the time of an expert.
  table.expert_seconds = std::max(table.expert_seconds, 1e-7);
  TextOfFewTokens text(stages->verifier(), table);
  std::vector<Call> calls;
  std::map<int, std::pair<double, int>> sums;  // By rows: seconds and calls.
  for (int i = 0; i < 420; ++i) {
    calls.push_back(text.Verify(std::array{32, 16, 2, 24, 8, 4, 1}[i % 7]));
    sums[calls.back().rows].first += calls.back().seconds;
    ++sums[calls.back().rows].second;
  }
  const std::shared_ptr<ExpertCost> of_random_tokens = ExpertCost::Make(table);
  Errors times, hindsight, experts, random_experts;
  for (const Call& call : absl::MakeConstSpan(calls).subspan(21)) {
    times.Add(call.predicted, call.seconds);
    hindsight.Add(sums[call.rows].first / sums[call.rows].second, call.seconds);
    experts.Add(call.expected, call.experts);
    random_experts.Add(of_random_tokens->Expected(call.rows), call.experts);
  }
  // The text touches about half as many experts as the random tokens of the profile.
  EXPECT_LT(experts.Quantile(0.5), 0.25);
  EXPECT_LT(experts.Quantile(0.5), 0.5 * random_experts.Quantile(0.5));
  const double median = times.Quantile(0.5), p95 = times.Quantile(0.95);
  const double median_bar = std::max(0.05, 1.3 * hindsight.Quantile(0.5));
  const double p95_bar = std::max(0.15, 1.3 * hindsight.Quantile(0.95));
  std::cout << "error of the times: median " << median << " (at most " << median_bar << "), p95 "
            << p95 << " (at most " << p95_bar << ")\n";
  return median <= median_bar && p95 <= p95_bar;
}

TEST(ExpertCostsTest, ATextIsPredictedAsWellAsInHindsight) {
  // Other programs disturb a measurement of half a second.
  constexpr int kMeasurements = 5;
  bool within_bars = false;
  for (int i = 0; i < kMeasurements && !within_bars; ++i) within_bars = PredictsTimesOfAText();
  EXPECT_TRUE(within_bars);
}

}  // namespace
}  // namespace bastion
