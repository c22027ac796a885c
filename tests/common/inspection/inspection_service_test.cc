#include "common/inspection/inspection_service.h"

#include <grpcpp/grpcpp.h>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

// A service at a Unix socket.
class Host {
 public:
  Host(const std::string& address, grpc::Service* service) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(service);
    server_ = builder.BuildAndStart();
  }
  ~Host() { server_->Shutdown(); }

 private:
  std::unique_ptr<grpc::Server> server_;
};

// A drafter on another machine, whose clock is an hour ahead.
class RemoteDrafter final : public v1::InspectionService::Service {
 public:
  static constexpr int64_t kAhead = 3600LL * 1000000000;
  grpc::Status GetTimeline(grpc::ServerContext*, const v1::GetTimelineRequest*,
                           v1::GetTimelineResponse* response) override {
    v1::ServiceTimeline& timeline = *response->add_services();
    timeline.set_clock("another machine");
    timeline.set_now_ns(absl::ToInt64Nanoseconds(Clock::Real().Now()) + kAhead);
    return grpc::Status::OK;
  }
};

class InspectionServiceTest : public ::testing::Test {
 protected:
  std::string Address(const std::string& service) {
    return "unix://" + folder_.File(service + ".sock");
  }
  static v1::GetTimelineRequest Last(int seconds) {
    v1::GetTimelineRequest request;
    request.mutable_last()->set_seconds(seconds);
    return request;
  }

  testing::TempFolder folder_;
  Timeline orchestrator_, verifier_;
};

TEST_F(InspectionServiceTest, TheOrchestratorReturnsTheTimelinesOfAllServices) {
  InspectionService verifier("verifier", &verifier_);
  Host verifier_host(Address("verifier"), &verifier);
  RemoteDrafter drafter;
  Host drafter_host(Address("drafter"), &drafter);
  InspectionService service("orchestrator", &orchestrator_, wire::Security::None(),
                            {{"verifier", Address("verifier")}, {"drafter", Address("drafter")}});
  const absl::Duration now = Clock::Real().Now();
  orchestrator_.Add(
      {{"cycles", "cycle", now - absl::Seconds(5), absl::Milliseconds(9)},
       {"cycles", "cycle", now - absl::Milliseconds(50), absl::Milliseconds(30), 17}});
  verifier_.Add({{"engine", "forward", now - absl::Milliseconds(40), absl::Milliseconds(20), 17}});
  v1::GetTimelineResponse response;
  const v1::GetTimelineRequest request = Last(2);
  grpc::ServerContext context;
  ASSERT_TRUE(service.GetTimeline(&context, &request, &response).ok());
  ASSERT_EQ(response.services_size(), 3);

  const v1::ServiceTimeline& own = response.services(0);
  EXPECT_EQ(own.service(), "orchestrator");
  ASSERT_EQ(own.slices_size(), 1) << "the first cycle ended too long ago";
  EXPECT_EQ(own.slices(0).start_ns(), absl::ToInt64Nanoseconds(now - absl::Milliseconds(50)));
  EXPECT_EQ(own.slices(0).rows(), 17);

  const v1::ServiceTimeline& same_host = response.services(1);
  EXPECT_EQ(same_host.service(), "verifier");
  EXPECT_EQ(same_host.clock(), own.clock());
  EXPECT_EQ(same_host.clock_offset_ns(), 0);
  EXPECT_EQ(same_host.clock_error_ns(), 0);
  ASSERT_EQ(same_host.slices_size(), 1);
  EXPECT_EQ(same_host.slices(0).duration_ns(), 20000000);

  const v1::ServiceTimeline& other_host = response.services(2);
  EXPECT_GT(other_host.clock_error_ns(), 0);
  EXPECT_LT(other_host.clock_error_ns(), 100000000);
  EXPECT_NEAR(static_cast<double>(other_host.clock_offset_ns() + RemoteDrafter::kAhead), 0,
              static_cast<double>(other_host.clock_error_ns()));
}

TEST_F(InspectionServiceTest, AServiceThatIsNotReachableIsNamedWithItsError) {
  InspectionService service("orchestrator", &orchestrator_, wire::Security::None(),
                            {{"drafter", Address("drafter")}});
  v1::GetTimelineResponse response;
  const v1::GetTimelineRequest request = Last(1);
  grpc::ServerContext context;
  ASSERT_TRUE(service.GetTimeline(&context, &request, &response).ok());
  ASSERT_EQ(response.services_size(), 2);
  EXPECT_EQ(response.services(1).service(), "drafter");
  EXPECT_EQ(response.services(1).error(), "it did not answer: UNAVAILABLE");
}

TEST_F(InspectionServiceTest, OnlyOneToSixtySecondsCanBeAskedFor) {
  InspectionService service("orchestrator", &orchestrator_);
  for (const int seconds : {0, -1, 61}) {
    v1::GetTimelineResponse response;
    const v1::GetTimelineRequest request = Last(seconds);
    grpc::ServerContext context;
    const grpc::Status status = service.GetTimeline(&context, &request, &response);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << seconds;
    EXPECT_THAT(status.error_message(), HasSubstr("last: "));
  }
}

}  // namespace
}  // namespace bastion
