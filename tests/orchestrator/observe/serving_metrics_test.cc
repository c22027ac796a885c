#include "orchestrator/observe/serving_metrics.h"

#include <map>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using testing::ReadAll;
using testing::RequestSpec;

// A drafter that is lost for 10 of 20 calls.
class FlakyDrafter final : public Drafter {
 public:
  explicit FlakyDrafter(Drafter* inner) : inner_(inner) {}
  absl::StatusOr<DrafterInfo> Info() override { return inner_->Info(); }
  absl::StatusOr<DraftResult> Expand(absl::Span<const Frontier> frontiers) override {
    if (calls_++ % 20 >= 10) return absl::UnavailableError("the drafter is gone");
    return inner_->Expand(frontiers);
  }
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

 private:
  Drafter* const inner_;
  int calls_ = 0;
};

// Sums the statistics of all requests that end, and passes everything on.
class Statistics final : public ServingObserver {
 public:
  explicit Statistics(ServingMetrics* metrics) : metrics_(*metrics) {}

  void OnCycle(const CycleSummary& cycle, const ServedCycle& requests) override {
    metrics_.OnCycle(cycle, requests);
  }
  void OnEnd(const LiveRequest& request, const absl::Status& status) override {
    {
      MutexLock lock(&mutex_);
      ++ends_[status.code()];
      prompt_tokens_ += static_cast<double>(request.request().decode.prompt.size());
      if (request.admitted()) Add(request.sequence());
    }
    metrics_.OnEnd(request, status);
  }
  void OnRefusal(const absl::Status& status) override { metrics_.OnRefusal(status); }
  void OnPreemption(const LiveRequest& request) override { metrics_.OnPreemption(request); }

  int ends(absl::StatusCode code) {
    MutexLock lock(&mutex_);
    return ends_[code];
  }
  double tokens_ = 0, nodes_ = 0, accepted_ = 0, drafts_ = 0, trees_ = 0, prompt_tokens_ = 0;
  double reused_ = 0;

 private:
  void Add(const DecodeSequence& sequence) {
    for (const CycleRecord& cycle : sequence.cycles()) {
      tokens_ += cycle.committed_length;
      nodes_ += cycle.nodes;
      accepted_ += cycle.accepted;
      drafts_ += cycle.drafted ? 1 : 0;
      ++trees_;
    }
    reused_ += sequence.reused_prompt_tokens();
  }

  ServingMetrics& metrics_;
  Mutex mutex_;
  std::map<absl::StatusCode, int> ends_;
};

class ServingMetricsTest : public testing::SchedulerTest {
 protected:
  void SetUp() override {
    SchedulerTest::SetUp();
    observer_ = &statistics_;
    used_drafter_ = &flaky_;
  }

  // The sum of the metric's values over all labels; the count for a histogram.
  double Sum(const std::string& name, const std::string& label = "",
             const std::string& value = "") {
    double sum = 0;
    for (const auto& family : registry_.Collect()) {
      if (family.name != name) continue;
      for (const auto& metric : family.metric) {
        const auto has_label = [&](const auto& l) { return l.name == label && l.value == value; };
        if (!label.empty() && std::none_of(metric.label.begin(), metric.label.end(), has_label)) {
          continue;
        }
        sum += metric.counter.value + metric.gauge.value +
               static_cast<double>(metric.histogram.sample_count);
      }
    }
    return sum;
  }

  prometheus::Registry registry_;
  ServingMetrics metrics_{MetricMaker(&registry_, {{"model_name", "toy"}})};
  Statistics statistics_{&metrics_};
  FlakyDrafter flaky_{&drafter_};
};

TEST_F(ServingMetricsTest, TheStatisticsOfAllRequestsSumToTheCounters) {
  verifier_.fake()->kv_tokens = 60 * testing::kToyPage;
  options_.max_running = 6;
  StartAndAwaitReady();
  std::vector<std::shared_ptr<RequestStream>> streams;
  const char* const policies[] = {"ar", "fixed:8", "adaptive", "chain:3"};
  for (int i = 0; i < 40; ++i) {
    RequestSpec spec = {.prompt = Prompt(10 + 3 * i, i % 5), .max_tokens = 30 + i};
    spec.policy = policies[i % 4];
    spec.answers = i % 10 == 0 ? 2 : 1;
    streams.push_back(Submit(spec));
  }
  for (size_t i = 0; i < streams.size(); ++i) {
    if (i % 6 == 5) scheduler_->Cancel(*streams[i]);
    const testing::Answer answer = ReadAll(*streams[i]);
    EXPECT_EQ(answer.status.ok(), i % 6 != 5 || answer.end.completion_tokens > 0);
  }
  ASSERT_TRUE(AwaitIdle());
  scheduler_.reset();

  EXPECT_GT(statistics_.ends(absl::StatusCode::kOk), 30);
  EXPECT_GT(statistics_.accepted_, 0);
  EXPECT_GT(Sum("bastion_draft_failures_total"), 0);
  EXPECT_EQ(Sum("bastion_requests_total", "code", "OK"), statistics_.ends(absl::StatusCode::kOk));
  EXPECT_EQ(Sum("bastion_requests_total", "code", "CANCELLED"),
            statistics_.ends(absl::StatusCode::kCancelled));
  EXPECT_EQ(Sum("bastion_generation_tokens_total"), statistics_.tokens_);
  EXPECT_EQ(Sum("bastion_prompt_tokens_total"), statistics_.prompt_tokens_);
  EXPECT_EQ(Sum("bastion_prefix_cache_hits_total"), statistics_.reused_);
  EXPECT_EQ(Sum("bastion_spec_drafts_total"), statistics_.drafts_);
  EXPECT_EQ(Sum("bastion_spec_draft_tokens_total"), statistics_.nodes_);
  EXPECT_EQ(Sum("bastion_spec_accepted_tokens_total"), statistics_.accepted_);
  EXPECT_EQ(Sum("bastion_spec_wasted_tokens_total"), statistics_.nodes_ - statistics_.accepted_);
  EXPECT_EQ(Sum("bastion_spec_accepted_tokens_per_position_total"), statistics_.accepted_);
  EXPECT_EQ(Sum("bastion_spec_acceptance_length"), statistics_.trees_);
  EXPECT_EQ(Sum("bastion_spec_budget_reasons_total"), statistics_.trees_);
  EXPECT_EQ(Sum("bastion_cycles_total"), Sum("bastion_cycle_duration_seconds"));
  EXPECT_EQ(Sum("bastion_time_to_first_token_seconds"), statistics_.ends(absl::StatusCode::kOk));
}

TEST_F(ServingMetricsTest, RefreshSetsTheGauges) {
  StartAndAwaitReady();
  verifier_.Hold(true);
  const auto stream = Submit({.max_tokens = 5});
  ASSERT_TRUE(verifier_.AwaitHeldCall());
  metrics_.Refresh(scheduler_->stats());
  EXPECT_EQ(Sum("bastion_requests_running"), 1);
  EXPECT_EQ(Sum("bastion_verifier_connected"), 1);
  verifier_.Hold(false);
  EXPECT_TRUE(ReadAll(*stream).status.ok());
  ASSERT_TRUE(AwaitIdle());
  metrics_.Refresh(scheduler_->stats());
  EXPECT_EQ(Sum("bastion_requests_running"), 0);
  EXPECT_EQ(Sum("bastion_drafter_connected"), 1);
}

TEST_F(ServingMetricsTest, RefusedCallsCount) {
  metrics_.OnRefusal(absl::ResourceExhaustedError("full"));
  EXPECT_EQ(Sum("bastion_requests_total", "code", "RESOURCE_EXHAUSTED"), 1);
}

TEST(LiveSpeedupTest, FollowsTheRecentPast) {
  LiveSpeedup speedup;
  EXPECT_EQ(speedup.ratio(), 1);
  for (int i = 0; i < 1000; ++i) speedup.Observe(absl::Milliseconds(10), absl::Milliseconds(20));
  EXPECT_NEAR(speedup.ratio(), 2, 1e-9);
  // Twice the half-life later.
  for (int i = 0; i < 4000; ++i) speedup.Observe(absl::Milliseconds(10), absl::Milliseconds(10));
  EXPECT_GT(speedup.ratio(), 1);
  EXPECT_LT(speedup.ratio(), 1.15);
}

}  // namespace
}  // namespace bastion
