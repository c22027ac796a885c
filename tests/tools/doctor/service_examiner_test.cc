// The doctor against a real orchestrator over fake stages.
#include "tools/doctor/service_examiner.h"

#include <optional>

#include "common/host/service_host.h"
#include "gmock/gmock.h"
#include "orchestrator/api/generation_service.h"
#include "orchestrator/api/orchestrator_inspection.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"
#include "tests/support/temp_folder.h"

namespace bastion::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ServiceExaminerTest : public testing::SchedulerTest {
 protected:
  void Serve() {
    options_.link.profile_limit = absl::Milliseconds(200);
    StartAndAwaitReady();
    intake_.emplace(&parser_, scheduler_.get());
    service_.emplace(CallOptions{&model_.model(), scheduler_.get()}, &*intake_,
                     GenerationServiceOptions{});
    inspection_.emplace(scheduler_.get(), &timeline_, wire::Security::None(),
                        std::vector<InspectedPeer>{});
    wire::HostOptions host;
    host.addresses = {"unix://" + folder_.File("o.sock")};
    auto started = wire::ServiceHost::Start(host, {&*service_, &*inspection_});
    ASSERT_TRUE(started.ok()) << started.status();
    host_ = *std::move(started);
    examine_.endpoint = host.addresses[0];
    for (int i = 0; i < 3; ++i) {
      v1::GenerateRequest& prompt = examine_.prompts.emplace_back();
      for (int token = 1; token < 9; ++token) prompt.mutable_tokens()->add_ids(token * (i + 2));
    }
    examine_.max_new_tokens = 24;
    examine_.progress = [](int, int) {};
  }
  void TearDown() override {
    if (host_ != nullptr) host_->Shutdown(absl::ZeroDuration());
  }

  const testing::ServedModelFixture model_;
  const RequestParser parser_{&model_.model(), *Policy::Parse("default")};
  const testing::TempFolder folder_;
  Timeline timeline_;
  std::optional<RequestIntake> intake_;
  std::optional<GenerationService> service_;
  std::optional<OrchestratorInspection> inspection_;
  std::unique_ptr<wire::ServiceHost> host_;
  ExamineOptions examine_;
};

TEST_F(ServiceExaminerTest, ReportsEveryConcurrencyWithAndWithoutDrafts) {
  Serve();
  examine_.concurrency = {1, 4};
  examine_.contexts = {64, 100'000};
  const auto report = ExamineService(examine_);
  ASSERT_TRUE(report.ok()) << report.status();
  ASSERT_THAT(report->levels, SizeIs(2));
  EXPECT_EQ(report->levels[1].requests, 4);
  ASSERT_TRUE(report->levels[0].drafted.has_value());
  // The fake drafter is right in 70 % of cases.
  EXPECT_GT(report->levels[0].drafted->committed, 1.2);
  EXPECT_GT(report->levels[0].draft_seconds, 0);
  EXPECT_GT(report->levels[0].plain_seconds, 0);
  EXPECT_EQ(report->prompts.requests, 3);
  EXPECT_EQ(report->prompts.prompt_tokens, 8);
  EXPECT_EQ(report->prompts.output_tokens, 24);
  EXPECT_FALSE(report->prompts.uses_table);
  // Row counts 1, 2, 4, …, 128. No context is beyond the model's.
  EXPECT_THAT(report->forwards, SizeIs(8));
  EXPECT_EQ(report->unreached_requests, 0);
}

TEST_F(ServiceExaminerTest, EndsAtTheNumberOfRequestsThatTheServerDecodesTogether) {
  options_.max_running = 2;
  drafter_.call_error = absl::UnavailableError("no drafter");
  verifier_.SetOpenTime(absl::Milliseconds(5));  // Further requests arrive meanwhile.
  Serve();
  examine_.concurrency = {1, 2, 8, 16};
  const auto report = ExamineService(examine_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_THAT(report->levels, SizeIs(2));
  EXPECT_EQ(report->unreached_requests, 8);
  EXPECT_FALSE(report->levels[0].drafted.has_value());
  EXPECT_THAT(report->drafter, IsEmpty());
  examine_.concurrency = {8};
  EXPECT_THAT(std::string(ExamineService(examine_).status().message()), HasSubstr("--concurrency"));
}

TEST_F(ServiceExaminerTest, PromptsAfterTheTimeLimitAreLeftOut) {
  Serve();
  examine_.recording_time = absl::ZeroDuration();
  const auto report = ExamineService(examine_);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->prompts.requests, 1);
  EXPECT_EQ(report->prompts.left_out, 2);
}

TEST_F(ServiceExaminerTest, AnUnreachableServerIsAnError) {
  examine_.endpoint = "unix://" + folder_.File("nothing.sock");
  examine_.prompts.resize(1);
  EXPECT_TRUE(absl::IsUnavailable(ExamineService(examine_).status()));
}

}  // namespace
}  // namespace bastion::doctor
