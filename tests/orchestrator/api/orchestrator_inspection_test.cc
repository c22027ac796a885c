#include "orchestrator/api/orchestrator_inspection.h"

#include <grpcpp/grpcpp.h>

#include "gmock/gmock.h"
#include "tests/orchestrator/schedule/scheduler_fixture.h"

namespace bastion {
namespace {

using ::testing::Each;
using ::testing::Gt;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class OrchestratorInspectionTest : public testing::SchedulerTest {
 protected:
  grpc::Status GetCosts(const v1::GetCostsRequest& request) {
    OrchestratorInspection service(scheduler_.get(), &timeline_, wire::Security::None(), {});
    grpc::ServerContext context;
    return service.GetCosts(&context, &request, &response_);
  }

  Timeline timeline_;
  v1::GetCostsResponse response_;
};

TEST_F(OrchestratorInspectionTest, AnIdleServerPredictsTheCostsOfABatch) {
  StartAndAwaitReady();
  v1::GetCostsRequest request;
  request.set_requests(4);
  request.set_context(100);
  request.set_max_nodes(8);
  const grpc::Status status = GetCosts(request);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_THAT(response_.cycle_seconds(), SizeIs(9));
  EXPECT_THAT(response_.cycle_seconds(), Each(Gt(0)));
  EXPECT_THAT(response_.cycle_after_draft_seconds(), SizeIs(9));
  EXPECT_THAT(response_.forward_seconds(), SizeIs(9));
  EXPECT_THAT(response_.roofline_seconds(), SizeIs(9));
  EXPECT_THAT(response_.draft_seconds(), SizeIs(5));
  EXPECT_EQ(response_.draft_seconds(0), 0);
  EXPECT_GT(response_.target().max_rows(), 0u);
}

TEST_F(OrchestratorInspectionTest, CostsEndAtTheRowsOfAForward) {
  StartAndAwaitReady();
  v1::GetCostsRequest request;
  request.set_max_nodes(4096);
  ASSERT_TRUE(GetCosts(request).ok());
  EXPECT_EQ(response_.cycle_seconds_size(), static_cast<int>(response_.target().max_rows()));
}

TEST_F(OrchestratorInspectionTest, ABatchBeyondTheLimitsIsRefusedByName) {
  StartAndAwaitReady();
  v1::GetCostsRequest request;
  request.set_requests(1025);
  const grpc::Status status = GetCosts(request);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("requests: 1025"));
}

TEST_F(OrchestratorInspectionTest, WithoutAVerifierThereAreNoCosts) {
  verifier_.SetUnavailable(true);
  Start();
  EXPECT_EQ(GetCosts({}).error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace bastion
