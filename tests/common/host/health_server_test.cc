#include "common/host/health_server.h"

#include <grpcpp/grpcpp.h>

#include <atomic>

#include "absl/strings/str_cat.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion::wire {
namespace {

constexpr char kPreface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

using grpc::health::v1::HealthCheckResponse;

grpc::Status Check(int port, bool patient, const std::string& service = "",
                   HealthCheckResponse* reply = nullptr) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 100);
  const auto stub = grpc::health::v1::Health::NewStub(grpc::CreateCustomChannel(
      absl::StrCat("127.0.0.1:", port), grpc::InsecureChannelCredentials(), arguments));
  grpc::ClientContext context;
  context.set_wait_for_ready(patient);
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(40));
  grpc::health::v1::HealthCheckRequest request;
  request.set_service(service);
  HealthCheckResponse unread;
  return stub->Check(&context, request, reply == nullptr ? &unread : reply);
}

TEST(HealthServerTest, AProcessThatWaitsIsAliveButDoesNotServe) {
  const auto server = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  for (const bool serving : {false, true, false}) {
    (*server)->SetServing(serving);
    HealthCheckResponse ready, live;
    ASSERT_TRUE(Check((*server)->port(), true, "", &ready).ok());
    ASSERT_TRUE(Check((*server)->port(), true, "liveness", &live).ok());
    EXPECT_EQ(ready.status(),
              serving ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
    EXPECT_EQ(live.status(), HealthCheckResponse::SERVING);
  }
  EXPECT_EQ(Check((*server)->port(), true, "other").error_code(), grpc::StatusCode::NOT_FOUND);
}

TEST(HealthServerTest, AProcessThatHangsIsNotAlive) {
  std::atomic<bool> alive = true;
  const auto server = HealthServer::Start("127.0.0.1:0", [&] { return alive.load(); });
  ASSERT_TRUE(server.ok()) << server.status();
  for (const bool expected : {true, false, true}) {
    alive = expected;
    HealthCheckResponse live;
    ASSERT_TRUE(Check((*server)->port(), true, "liveness", &live).ok());
    EXPECT_EQ(live.status(),
              expected ? HealthCheckResponse::SERVING : HealthCheckResponse::NOT_SERVING);
  }
}

TEST(HealthServerTest, IdleClientsCannotKeepProbesOut) {
  const auto server = HealthServer::Start("127.0.0.1:0");
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string settings("\0\0\0\4\0\0\0\0\0", 9);  // Without settings.
  std::vector<std::unique_ptr<testing::HttpConnection>> idle;
  for (int i = 0; i < 100; ++i) {
    idle.push_back(std::make_unique<testing::HttpConnection>((*server)->port()));
    idle.back()->Send(kPreface + settings);
    EXPECT_FALSE(idle.back()->Receive().empty());
  }
  const grpc::Status status = Check((*server)->port(), false);
  EXPECT_TRUE(status.ok()) << status.error_message();
}

}  // namespace
}  // namespace bastion::wire
