// Seen: four calls of a client that opened no flow-control window held all threads of the port for
// health checks. No other client was answered for a minute, so that Kubernetes restarted the pod.
#include <grpcpp/grpcpp.h>

#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/host/health_server.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/support/http2_client.h"

namespace bastion::wire {
namespace {

using testing::Http2Client;

class ProbesTest : public ::testing::Test {
 protected:
  // Asks over a new connection, as Kubernetes does.
  grpc::Status Probe() {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto stub = grpc::health::v1::Health::NewStub(
        grpc::CreateCustomChannel(absl::StrCat("127.0.0.1:", server_->port()),
                                  grpc::InsecureChannelCredentials(), arguments));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
    grpc::health::v1::HealthCheckResponse response;
    return stub->Check(&context, {}, &response);
  }

  const std::unique_ptr<HealthServer> server_ = *HealthServer::Start("127.0.0.1:0");
};

TEST_F(ProbesTest, AreAnsweredAlthoughClientsDoNotRead) {
  constexpr int kClients = 100;
  constexpr int kCalls = 8;
  std::vector<std::unique_ptr<Http2Client>> silent;
  for (int i = 0; i < kClients; ++i) {
    silent.push_back(std::make_unique<Http2Client>(server_->port(), /*window=*/0));
    for (int call = 0; call < kCalls; ++call) {
      silent.back()->Call("/grpc.health.v1.Health/Check", "");
      silent.back()->Call("/grpc.health.v1.Health/Watch", "");
    }
    if (i % 20 != 0) continue;
    const grpc::Status probed = Probe();
    ASSERT_TRUE(probed.ok()) << i << ": " << probed.error_message();
  }
  const grpc::Status probed = Probe();
  EXPECT_TRUE(probed.ok()) << probed.error_message();
}

TEST_F(ProbesTest, AreAnsweredAfterSilence) {
  for (int i = 0; i < 3; ++i) {
    const absl::Time start = absl::Now();
    const grpc::Status probed = Probe();
    ASSERT_TRUE(probed.ok()) << i << ": " << probed.error_message();
    EXPECT_LT(absl::Now() - start, absl::Seconds(1)) << i;
    absl::SleepFor(absl::Seconds(2));
  }
}

}  // namespace
}  // namespace bastion::wire
