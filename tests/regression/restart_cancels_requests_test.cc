// Seen: an orchestrator that ended on SIGTERM reset calls that arrived in its last moment. Their
// clients saw CANCELLED, although they had canceled nothing, and did not try again.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/host/service_host.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

namespace proto = internal::v1;

constexpr int kRestarts = 20;
constexpr int kClients = 4;

class Service final : public proto::VerifierService::Service {
 public:
  grpc::Status GetInfo(grpc::ServerContext*, const proto::GetInfoRequest*,
                       proto::TargetInfo*) override {
    return grpc::Status(grpc::StatusCode::UNAVAILABLE, "shuts down");
  }
};

TEST(RestartCancelsRequestsTest, ClientsSeeThatTheServiceIsUnavailable) {
  const testing::TempFolder folder;
  wire::HostOptions options;
  options.addresses = {"unix:" + folder.File("service.sock")};
  options.reflection = false;
  std::atomic<bool> stopping{false};
  std::atomic<int> called{0}, canceled{0};
  std::vector<std::thread> clients;
  for (int i = 0; i < kClients; ++i) {
    clients.emplace_back([&] {
      while (!stopping) {
        // A channel that failed to connect waits before it tries again, so each round has its own.
        grpc::ChannelArguments own;
        own.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
        const auto stub = proto::VerifierService::NewStub(grpc::CreateCustomChannel(
            options.addresses[0], grpc::InsecureChannelCredentials(), own));
        for (int call = 0; call < 200 && !stopping; ++call) {
          grpc::ClientContext context;
          proto::TargetInfo info;
          const grpc::Status status = stub->GetInfo(&context, proto::GetInfoRequest(), &info);
          canceled += status.error_code() == grpc::StatusCode::CANCELLED;
          if (status.error_message() != "shuts down") break;
          ++called;
        }
      }
    });
  }
  for (int i = 0; i < kRestarts; ++i) {
    Service service;
    const auto host = wire::ServiceHost::Start(options, {&service});
    ASSERT_TRUE(host.ok()) << host.status();
    const int before = called;
    for (int wait = 0; wait < 2000 && called < before + 20; ++wait) {
      absl::SleepFor(absl::Milliseconds(1));
    }
    (*host)->Shutdown(absl::Milliseconds(50));
  }
  stopping = true;
  for (std::thread& client : clients) client.join();
  EXPECT_GE(called, kRestarts);
  EXPECT_EQ(canceled, 0) << "of " << called << " calls";
}

}  // namespace
}  // namespace bastion
