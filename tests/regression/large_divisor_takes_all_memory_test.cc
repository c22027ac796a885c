// Seen: one JSON schema of 40 bytes, {"multipleOf": 9999991}, took all memory of the orchestrator
// and ended it. While it was compiled, no other request was tokenized, also after its client had
// left.
#include <atomic>
#include <string>
#include <thread>

#include "gmock/gmock.h"
#include "orchestrator/intake/request_intake.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

class LargeDivisorTest : public testing::SchedulerTest {
 protected:
  void SetUp() override {
    SchedulerTest::SetUp();
    StartAndAwaitReady();
    intake_.emplace(&parser_, scheduler_.get(), IntakeOptions{.tokenizing = 1});
  }
  static v1::GenerateRequest WithSchema(const std::string& schema) {
    v1::GenerateRequest request;
    request.set_text("the cat");
    request.mutable_constraint()->set_json_schema(schema);
    return request;
  }

  const testing::ServedModelFixture model_;
  const RequestParser parser_{&model_.model(), *Policy::Parse("ar")};
  std::optional<RequestIntake> intake_;
};

TEST_F(LargeDivisorTest, IsRefused) {
  const v1::GenerateRequest request = WithSchema(R"({"type":"integer","multipleOf":300007})");
  const absl::Status refused = intake_->Enter(request, {}).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("multipleOf is 300007"));
}

TEST_F(LargeDivisorTest, CompilingEndsWithItsClient) {
  // The first questions are asked while the request waits for its turns.
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> compiles{false};
  const auto leaves = [&] {
    if (std::this_thread::get_id() != caller) compiles = true;
    return compiles.load();
  };
  const v1::GenerateRequest request = WithSchema(R"({"type":"integer","multipleOf":9973})");
  const absl::Status left = intake_->Enter(request, {.is_canceled = leaves}).status();
  EXPECT_TRUE(absl::IsCancelled(left)) << left;
}

TEST_F(LargeDivisorTest, OthersAreTokenizedMeanwhile) {
  const std::thread::id caller = std::this_thread::get_id();
  v1::GenerateRequest plain;
  plain.set_text("the cat");
  bool entered = false;
  // Called by the thread that compiles, which waits for the answer.
  const auto ask = [&] {
    if (std::this_thread::get_id() != caller && !entered) {
      entered = intake_->Enter(plain, {.deadline = Clock::Real().Now() + absl::Seconds(10)}).ok();
    }
    return false;
  };
  const v1::GenerateRequest request = WithSchema(R"({"type":"integer","multipleOf":9973})");
  EXPECT_TRUE(intake_->Enter(request, {.is_canceled = ask}).ok());
  EXPECT_TRUE(entered);
}

}  // namespace
}  // namespace bastion
