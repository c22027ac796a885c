#include "common/host/service_host.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "common/host/stop_signals.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckRequest;
using grpc::health::v1::HealthCheckResponse;

class ServiceHostTest : public ::testing::Test {
 protected:
  ServiceHostTest()
      : socket_(std::filesystem::temp_directory_path() /
                ("bastion_host_" + std::to_string(getpid()))) {}
  ~ServiceHostTest() override { std::filesystem::remove(socket_); }

  std::string Address() const { return "unix://" + socket_.string(); }
  HostOptions Options() const {
    HostOptions options;
    options.addresses = {Address()};
    options.reflection = true;  // gRPC's health service needs a synchronous service beside it.
    return options;
  }

  // Returns UNKNOWN while no server listens.
  HealthCheckResponse::ServingStatus CheckHealth() const {
    // Use a new channel, because a channel that failed to connect waits before it retries.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto health = Health::NewStub(
        grpc::CreateCustomChannel(Address(), grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    HealthCheckResponse reply;
    const grpc::Status status = health->Check(&context, HealthCheckRequest(), &reply);
    return status.ok() ? reply.status() : HealthCheckResponse::UNKNOWN;
  }

  const std::filesystem::path socket_;
};

TEST_F(ServiceHostTest, HealthFollowsSetServing) {
  auto host = ServiceHost::Start(Options(), {});
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_EQ(CheckHealth(), HealthCheckResponse::NOT_SERVING);
  (*host)->SetServing(true);
  EXPECT_EQ(CheckHealth(), HealthCheckResponse::SERVING);
  (*host)->SetServing(false);
  EXPECT_EQ(CheckHealth(), HealthCheckResponse::NOT_SERVING);
}

TEST_F(ServiceHostTest, HealthIsNeverServingBeforeSetServing) {
  std::atomic<bool> stopping{false};
  std::atomic<int> serving{0}, not_serving{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      while (!stopping) {
        const auto status = CheckHealth();
        serving += status == HealthCheckResponse::SERVING;
        not_serving += status == HealthCheckResponse::NOT_SERVING;
      }
    });
  }
  for (int start = 0; start < 100; ++start) {
    const int before = not_serving;
    const auto host = ServiceHost::Start(Options(), {});
    ASSERT_TRUE(host.ok()) << host.status();
    while (not_serving == before && serving == 0) std::this_thread::yield();
  }
  stopping = true;
  for (std::thread& thread : callers) thread.join();
  EXPECT_EQ(serving, 0);
}

// The cycle's thread tells the host whether it is ready until it stops, which is after the host.
TEST_F(ServiceHostTest, SetServingAfterShutdownHasNoEffect) {
  auto host = ServiceHost::Start(Options(), {});
  ASSERT_TRUE(host.ok()) << host.status();
  std::atomic<bool> stopping{false};
  std::thread scheduler([&] {
    for (bool ready = false; !stopping; ready = !ready) (*host)->SetServing(ready);
  });
  (*host)->Shutdown(absl::ZeroDuration());
  (*host)->SetServing(true);
  stopping = true;
  scheduler.join();
  EXPECT_EQ(CheckHealth(), HealthCheckResponse::UNKNOWN);
}

TEST_F(ServiceHostTest, ALogReaderThatGoesAwayDoesNotEndTheService) {
  const StopSignals signals;
  EXPECT_EQ(raise(SIGPIPE), 0);
}

TEST_F(ServiceHostTest, AnIdleConnectionIsClosed) {
  HostOptions options = Options();
  options.connections.max_idle = absl::Milliseconds(200);
  const auto host = ServiceHost::Start(options, {});
  ASSERT_TRUE(host.ok()) << host.status();
  const auto channel = grpc::CreateChannel(Address(), grpc::InsecureChannelCredentials());
  ASSERT_TRUE(
      channel->WaitForConnected(std::chrono::system_clock::now() + std::chrono::seconds(20)));
  EXPECT_TRUE(channel->WaitForStateChange(
      GRPC_CHANNEL_READY, std::chrono::system_clock::now() + std::chrono::seconds(20)));
}

// Long answers outlive the age of their connection.
TEST_F(ServiceHostTest, ACallMayOutliveTheAgeOfItsConnection) {
  HostOptions options = Options();
  options.connections.max_age = absl::Milliseconds(100);
  const auto host = ServiceHost::Start(options, {});
  ASSERT_TRUE(host.ok()) << host.status();
  const auto channel = grpc::CreateChannel(Address(), grpc::InsecureChannelCredentials());
  const auto health = Health::NewStub(channel);
  grpc::ClientContext context;
  const auto watch = health->Watch(&context, HealthCheckRequest());
  HealthCheckResponse reply;
  ASSERT_TRUE(watch->Read(&reply));
  ASSERT_TRUE(channel->WaitForStateChange(
      GRPC_CHANNEL_READY, std::chrono::system_clock::now() + std::chrono::seconds(20)));
  (*host)->SetServing(true);
  ASSERT_TRUE(watch->Read(&reply));
  EXPECT_EQ(reply.status(), HealthCheckResponse::SERVING);
  context.TryCancel();
  (void)watch->Finish();
}

TEST_F(ServiceHostTest, AnAddressThatCannotBeBoundIsReported) {
  HostOptions options;
  options.addresses = {"unix:///nowhere/at/all.sock"};
  const auto host = ServiceHost::Start(options, {});
  EXPECT_TRUE(absl::IsUnavailable(host.status())) << host.status();
  EXPECT_NE(host.status().message().find("/nowhere/at/all.sock"), std::string::npos);
}

}  // namespace
}  // namespace bastion::wire
