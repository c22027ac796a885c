// Seen: without an access list, one host that called itself by 64 names took all 64 places for
// constraints. All others were refused.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "orchestrator/intake/request_intake.h"
#include "tests/orchestrator/intake/served_model_fixture.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

constexpr int kNames = 64;

class ManyNamesTest : public testing::SchedulerTest {};

TEST_F(ManyNamesTest, LeaveConstraintsToAnotherHost) {
  StartAndAwaitReady();
  const testing::ServedModelFixture model;
  const RequestParser parser(&model.model(), *Policy::Parse("ar"));
  RequestIntake intake(&parser, scheduler_.get());
  v1::GenerateRequest request;
  request.set_text("the cat");
  std::vector<RequestIntake::Entered> entered;
  for (int i = 0; i < kNames; ++i) {
    request.mutable_constraint()->set_regex(absl::StrCat("a{", i + 1, "}"));
    auto one = intake.Enter(request, {.client = absl::StrCat("name ", i), .host = "192.0.2.1"});
    if (one.ok()) entered.push_back(*std::move(one));
  }
  EXPECT_GE(entered.size(), size_t{kNames / 2});
  request.mutable_constraint()->set_regex("b");
  const absl::Status other = intake.Enter(request, {.client = "c", .host = "192.0.2.2"}).status();
  EXPECT_TRUE(other.ok()) << other;
}

}  // namespace
}  // namespace bastion
