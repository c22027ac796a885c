// A client opened calls and reset them at once (CVE-2023-44487). gRPC 1.51 has no limit for that:
// the orchestrator took 2.8 GB, answered no call for half a minute after the end, and counted its
// verifier as lost.
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/host/cancel_budget.h"
#include "common/host/service_host.h"
#include "common/wire/codec.h"
#include "gtest/gtest.h"
#include "orchestrator/remote/remote_verifier.h"
#include "tests/support/http2_client.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

namespace proto = internal::v1;

class IdleVerifier final : public proto::VerifierService::Service {
 public:
  grpc::Status GetInfo(grpc::ServerContext*, const proto::GetInfoRequest*,
                       proto::TargetInfo* info) override {
    wire::Encode(EngineActivity{.instance = 7}, *info->mutable_activity());
    return grpc::Status::OK;
  }
};

class RapidResetTest : public ::testing::TestWithParam<const char*> {
 protected:
  // Starts a server of `service_` at `address`.
  std::unique_ptr<wire::ServiceHost> StartHost(const std::string& address) {
    wire::HostOptions options;
    options.addresses = {address};
    options.reflection = false;
    auto host = wire::ServiceHost::Start(options, {&service_});
    EXPECT_TRUE(host.ok()) << host.status();
    return host.ok() ? *std::move(host) : nullptr;
  }

  IdleVerifier service_;
};

TEST_P(RapidResetTest, TheConnectionIsClosedAndThePeerIsNotLost) {
  const testing::TempFolder folder;
  const std::string address = "unix:" + folder.File("verifier.sock");
  const auto peer = StartHost(address), attacked = StartHost("127.0.0.1:0");
  ASSERT_TRUE(peer != nullptr && attacked != nullptr);
  RemoteVerifier verifier({.address = address, .carrier = wire::CarrierChoice::kInline});
  ASSERT_TRUE(verifier.Info().ok());
  testing::Http2Client offender(attacked->port(), 65535);
  testing::Http2Client other(attacked->port(), 65535);
  constexpr int kBatch = 100;
  constexpr int kMost = 20 * static_cast<int>(wire::CancelBudget::kBurst);
  int sent = 0;
  for (; sent < kMost && offender.IsOpen(); sent += kBatch) {
    offender.CallAndCancel(GetParam(), kBatch);
    // So that the server looks at its connections several times before kMost calls.
    absl::SleepFor(absl::Milliseconds(5));
    ASSERT_TRUE(verifier.CheckAlive().ok()) << verifier.CheckAlive();
  }
  EXPECT_LT(sent, kMost) << "the connection was not closed";
  EXPECT_GT(sent, wire::CancelBudget::kBurst);
  EXPECT_TRUE(other.IsOpen());
  EXPECT_TRUE(verifier.CheckAlive().ok()) << verifier.CheckAlive();
}

INSTANTIATE_TEST_SUITE_P(Methods, RapidResetTest,
                         ::testing::Values("/bastion.internal.v1.VerifierService/GetInfo",
                                           "/bastion.internal.v1.VerifierService/Steps",
                                           "/grpc.health.v1.Health/Check", "/unknown/Method"),
                         [](const auto& info) { return absl::StrCat("Method", info.index); });

}  // namespace
}  // namespace bastion
