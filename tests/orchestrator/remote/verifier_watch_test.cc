// A verifier that hangs, ends or is restarted is noticed by its client, with and without a call.
#include <atomic>
#include <string>

#include "absl/time/clock.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/host/service_host.h"
#include "common/wire/codec.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/remote/remote_drafter.h"
#include "orchestrator/remote/remote_verifier.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

namespace proto = internal::v1;

constexpr absl::Duration kPatience = absl::Milliseconds(200);
constexpr absl::Duration kSoon = absl::Seconds(5);  // Far less than the timeout of a call.

// Answers all calls, unless it hangs.
class HangingVerifier final : public proto::VerifierService::Service {
 public:
  explicit HangingVerifier(uint64_t instance) : instance_(instance) {}

  grpc::Status GetInfo(grpc::ServerContext*, const proto::GetInfoRequest*,
                       proto::TargetInfo* info) override {
    Wait(info_hangs);
    info->set_identity("model");
    wire::Encode({instance_, progress, calls_ > 0}, *info->mutable_activity());
    return grpc::Status::OK;
  }
  grpc::Status Steps(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<proto::VerifierReply, proto::VerifierRequest>* stream) override {
    proto::VerifierRequest request;
    while (stream->Read(&request)) {
      ++calls_;
      Wait(calls_hang);
      --calls_;
      proto::VerifierReply reply;
      reply.set_step(request.step());
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }

  std::atomic<bool> info_hangs{false}, calls_hang{false};
  std::atomic<uint64_t> progress{0};

 private:
  static void Wait(const std::atomic<bool>& hangs) {
    while (hangs) absl::SleepFor(absl::Milliseconds(1));
  }
  const uint64_t instance_;
  std::atomic<int> calls_{0};
};

class VerifierWatchTest : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }
  void TearDown() override { Stop(); }
  void Start() {
    service_ = std::make_unique<HangingVerifier>(++instances_);
    wire::HostOptions options;
    options.addresses = {address_};
    options.reflection = false;
    auto host = wire::ServiceHost::Start(options, {service_.get()});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }
  void Stop() {
    service_->info_hangs = service_->calls_hang = false;
    host_.reset();
  }
  bool AwaitLost() {
    const absl::Duration end = Clock::Real().Now() + kSoon;
    while (Clock::Real().Now() < end) {
      if (!verifier_.CheckAlive().ok()) return true;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return false;
  }
  bool AwaitInfo() {
    for (int i = 0; i < 100; ++i) {
      if (verifier_.Info().ok()) return true;
      absl::SleepFor(absl::Milliseconds(50));
    }
    return false;
  }

  const testing::TempFolder folder_;
  const std::string address_ = "unix:" + folder_.File("verifier.sock");
  uint64_t instances_ = 0;
  std::unique_ptr<HangingVerifier> service_;
  std::unique_ptr<wire::ServiceHost> host_;
  RemoteVerifier verifier_{
      {.address = address_, .peer_timeout = kPatience, .carrier = wire::CarrierChoice::kInline}};
};

TEST_F(VerifierWatchTest, AProcessThatHangsIsNoticedWhileIdle) {
  ASSERT_TRUE(verifier_.Info().ok());
  EXPECT_TRUE(verifier_.CheckAlive().ok());
  service_->info_hangs = true;
  EXPECT_TRUE(AwaitLost());
  service_->info_hangs = false;
  ASSERT_TRUE(AwaitInfo());
  EXPECT_TRUE(verifier_.Open({1, 0}, {}).ok());
}

TEST_F(VerifierWatchTest, AProcessThatHangsEndsTheCall) {
  ASSERT_TRUE(verifier_.Info().ok());
  service_->info_hangs = service_->calls_hang = true;
  const absl::Duration began = Clock::Real().Now();
  EXPECT_TRUE(absl::IsUnavailable(verifier_.Open({1, 0}, {})));
  EXPECT_LT(Clock::Real().Now() - began, kSoon);
}

TEST_F(VerifierWatchTest, AnEngineThatHangsEndsTheCall) {
  ASSERT_TRUE(verifier_.Info().ok());
  verifier_.ExpectVerify(absl::Milliseconds(1));
  service_->calls_hang = true;
  const absl::Duration began = Clock::Real().Now();
  EXPECT_TRUE(absl::IsUnavailable(verifier_.Open({1, 0}, {})));
  EXPECT_LT(Clock::Real().Now() - began, kSoon);
}

TEST_F(VerifierWatchTest, AfterALossCallsFailUntilInfoSucceeds) {
  ASSERT_TRUE(verifier_.Info().ok());
  ASSERT_TRUE(verifier_.Open({1, 0}, {}).ok());
  Stop();
  Start();
  EXPECT_FALSE(verifier_.Open({2, 0}, {}).ok());
  EXPECT_FALSE(verifier_.Open({2, 0}, {}).ok()) << "it could be another model";
  ASSERT_TRUE(AwaitInfo());
  EXPECT_TRUE(verifier_.Open({2, 0}, {}).ok());
}

TEST_F(VerifierWatchTest, ARestartIsNoticedWhileIdle) {
  ASSERT_TRUE(verifier_.Info().ok());
  Stop();
  Start();
  EXPECT_TRUE(AwaitLost());
  ASSERT_TRUE(AwaitInfo());
  EXPECT_TRUE(verifier_.CheckAlive().ok());
}

TEST_F(VerifierWatchTest, StopEndsTheCallOfAnotherThread) {
  ASSERT_TRUE(verifier_.Info().ok());
  service_->calls_hang = true;
  std::thread stopping([&] {
    absl::SleepFor(absl::Milliseconds(20));
    verifier_.Stop();
  });
  EXPECT_TRUE(absl::IsUnavailable(verifier_.Open({1, 0}, {})));
  stopping.join();
}

}  // namespace
}  // namespace bastion
