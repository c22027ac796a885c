#include "common/wire/service_host.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

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
    return options;
  }

  // UNKNOWN while there is nobody to ask.
  HealthCheckResponse::ServingStatus Ask() const {
    // A channel of its own: one that failed would pause before it tries again.
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto health = Health::NewStub(
        grpc::CreateCustomChannel(Address(), grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    HealthCheckResponse answer;
    const grpc::Status asked = health->Check(&context, HealthCheckRequest(), &answer);
    return asked.ok() ? answer.status() : HealthCheckResponse::UNKNOWN;
  }

  const std::filesystem::path socket_;
};

TEST_F(ServiceHostTest, ServesWhenToldTo) {
  auto host = ServiceHost::Start(Options(), {});
  ASSERT_TRUE(host.ok()) << host.status();
  EXPECT_EQ(Ask(), HealthCheckResponse::NOT_SERVING);
  (*host)->SetServing(true);
  EXPECT_EQ(Ask(), HealthCheckResponse::SERVING);
  (*host)->SetServing(false);
  EXPECT_EQ(Ask(), HealthCheckResponse::NOT_SERVING);
}

TEST_F(ServiceHostTest, NeverServesBeforeIt) {
  std::atomic<bool> over{false};
  std::atomic<int> served{0}, refused{0};
  std::vector<std::thread> early;
  for (int i = 0; i < 8; ++i) {
    early.emplace_back([&] {
      while (!over) {
        const auto status = Ask();
        served += status == HealthCheckResponse::SERVING;
        refused += status == HealthCheckResponse::NOT_SERVING;
      }
    });
  }
  for (int start = 0; start < 100; ++start) {
    const int before = refused;
    const auto host = ServiceHost::Start(Options(), {});
    ASSERT_TRUE(host.ok()) << host.status();
    while (refused == before && served == 0) std::this_thread::yield();
  }
  over = true;
  for (std::thread& thread : early) thread.join();
  EXPECT_EQ(served, 0);
}

TEST_F(ServiceHostTest, AnAddressThatCannotBeHadIsNamed) {
  HostOptions options;
  options.addresses = {"unix:///nowhere/at/all.sock"};
  const auto host = ServiceHost::Start(options, {});
  EXPECT_TRUE(absl::IsUnavailable(host.status())) << host.status();
  EXPECT_NE(host.status().message().find("/nowhere/at/all.sock"), std::string::npos);
}

}  // namespace
}  // namespace bastion::wire
