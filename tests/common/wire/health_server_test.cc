#include "common/wire/health_server.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion::wire {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

grpc::Status Check(int port, bool patient) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  const auto stub = grpc::health::v1::Health::NewStub(grpc::CreateCustomChannel(
      absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_wait_for_ready(patient);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(40));
  grpc::health::v1::HealthCheckResponse reply;
  return stub->Check(&context, {}, &reply);
}

TEST(HealthServerTest, IdleClientsCannotKeepProbesOut) {
  const auto server = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string settings("\0\0\0\4\0\0\0\0\0", 9);  // Without settings.
  std::vector<std::unique_ptr<testing::HttpConnection>> idle;
  for (int i = 0; i < 64; ++i) {
    idle.push_back(std::make_unique<testing::HttpConnection>((*server)->port()));
    idle.back()->Send(kPreface + settings);
    EXPECT_FALSE(idle.back()->Receive().empty());
  }
  EXPECT_EQ(Check((*server)->port(), false).error_code(), grpc::StatusCode::UNAVAILABLE);
  const grpc::Status status = Check((*server)->port(), true);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace bastion::wire
