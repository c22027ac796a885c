// The parts of a scheduler without its thread, for tests that run the steps of a loop themselves.
#ifndef BASTION_TESTS_ORCHESTRATOR_SCHEDULE_RUNNING_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_SCHEDULE_RUNNING_FIXTURE_H_

#include <memory>
#include <optional>
#include <vector>

#include "gtest/gtest.h"
#include "orchestrator/schedule/admission.h"
#include "orchestrator/schedule/kv_admission.h"
#include "orchestrator/schedule/running_requests.h"
#include "orchestrator/schedule/verifier_loss.h"
#include "tests/orchestrator/schedule/live_request_fixture.h"
#include "tests/orchestrator/schedule/request_ends.h"
#include "tests/support/fake_stages.h"
#include "tests/support/manual_clock.h"

namespace bastion::testing {

class RunningTest : public ::testing::Test {
 protected:
  // Connects a verifier whose KV cache has this many pages.
  void Start(int pages, int max_running = 16) {
    verifier_.kv_tokens = pages * kToyPage;
    options_.max_running = max_running;
    options_.link.dims = verifier_.Info()->dims;
    link_.emplace(options_.link, &verifier_, &drafter_,
                  VerifierLink::Events{[] {}, [](const absl::Status&) {}, [] {}});
    running_.emplace(options_, &queue_, &*link_, &drafter_);
    admission_.emplace(options_, &queue_, &*link_, &*running_, &ends_);
    loss_.emplace(options_.verifier_patience, &*link_, &*running_, &clock_);
    maker_.set_observer(&ends_);
    Connect();
  }
  void Connect() {
    ASSERT_TRUE(link_->Connect());
    running_->set_free_tokens(verifier_.kv_tokens);
    queue_.Accept();
  }
  std::shared_ptr<RequestStream> Push(const RequestSpec& spec) {
    auto request = maker_.Make(spec);
    auto stream = request->stream();
    EXPECT_TRUE(queue_.Push(std::move(request)).ok());
    return stream;
  }
  absl::Status Open(LiveRequest& request) {
    return link_->session()->cycle.TryOpen(request.sequence());
  }
  absl::Status Admit() {
    return admission_->Admit([this](LiveRequest& request) { return Open(request); });
  }
  // Admits what waits, and commits the prompts.
  void AdmitAndPrefill() {
    ASSERT_TRUE(Admit().ok());
    DecodeCycle& cycle = link_->session()->cycle;
    for (const auto& request : running_->all()) {
      while (cycle.Prefill(request->sequence(), 64)) {
      }
    }
    running_->set_free_tokens(cycle.free_kv_tokens());
  }
  // The ids of the running requests.
  [[nodiscard]] std::vector<std::string> Running() const {
    std::vector<std::string> ids;
    for (const auto& request : running_->all()) ids.push_back(request->request().request_id);
    return ids;
  }
  static std::vector<TokenId> Prompt(int count, int request = 0) {
    std::vector<TokenId> prompt;
    for (int i = 0; i < count; ++i) prompt.push_back((i * 7 + request) % kToyVocabulary);
    return prompt;
  }

  ManualClock clock_;
  Ends ends_;
  RequestMaker maker_{&clock_};
  FakeVerifier verifier_;
  FakeDrafter drafter_{&verifier_};
  SchedulerOptions options_;
  RequestQueue queue_{256, &clock_};
  std::optional<VerifierLink> link_;
  std::optional<RunningRequests> running_;
  std::optional<Admission> admission_;
  std::optional<VerifierLoss> loss_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_SCHEDULE_RUNNING_FIXTURE_H_
