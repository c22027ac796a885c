// A verifier was alive but did not answer one call: its request or its reply had been lost, or only
// replies to other steps came. Its engine was idle, so the watch found nothing wrong, and the
// scheduler waited for the reply for ten minutes. All answers stopped, while health stayed SERVING.
#include <atomic>
#include <string>

#include "absl/time/clock.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/host/service_host.h"
#include "common/wire/codec.h"
#include "gtest/gtest.h"
#include "orchestrator/remote/remote_verifier.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

namespace proto = internal::v1;

using Steps = grpc::ServerReaderWriter<proto::VerifierReply, proto::VerifierRequest>;

// Is alive and idle, and does not answer the call of session 1.
class SilentVerifier final : public proto::VerifierService::Service {
 public:
  explicit SilentVerifier(bool sends_other_steps) : sends_other_steps_(sends_other_steps) {}

  grpc::Status GetInfo(grpc::ServerContext*, const proto::GetInfoRequest*,
                       proto::TargetInfo* info) override {
    wire::Encode(EngineActivity{.instance = 7}, *info->mutable_activity());
    return grpc::Status::OK;
  }
  grpc::Status Steps(grpc::ServerContext* context, bastion::Steps* stream) override {
    proto::VerifierRequest request;
    while (stream->Read(&request)) {
      proto::VerifierReply reply;
      reply.set_step(request.step());
      if (request.open().sequence().session() != 1) {
        stream->Write(reply);
        continue;
      }
      reply.set_step(request.step() + 1);
      while (sends_other_steps_ && !context->IsCancelled() && stream->Write(reply)) {
        absl::SleepFor(absl::Microseconds(100));
      }
    }
    return grpc::Status::OK;
  }

 private:
  const bool sends_other_steps_;
};

class SilentVerifierTest : public ::testing::TestWithParam<bool> {};

TEST_P(SilentVerifierTest, ACallThatIsNotAnsweredIsALossAndTheNextOneIsServed) {
  const testing::TempFolder folder;
  const std::string address = "unix:" + folder.File("verifier.sock");
  SilentVerifier service(GetParam());
  wire::HostOptions options;
  options.addresses = {address};
  options.reflection = false;
  const auto host = wire::ServiceHost::Start(options, {&service});
  ASSERT_TRUE(host.ok()) << host.status();
  RemoteVerifier verifier({.address = address,
                           .peer_timeout = absl::Milliseconds(200),
                           .call_timeout = absl::Seconds(20),
                           .carrier = wire::CarrierChoice::kInline});
  ASSERT_TRUE(verifier.Info().ok());
  const absl::Time began = absl::Now();
  const absl::Status silent = verifier.Open({1, 0}, {});
  EXPECT_TRUE(absl::IsUnavailable(silent)) << silent;
  EXPECT_LT(absl::Now() - began, absl::Seconds(15));
  absl::Status served = absl::UnavailableError("Info() failed");
  for (int i = 0; i < 100 && !served.ok(); ++i) {
    if (verifier.Info().ok()) served = verifier.Open({2, 0}, {});
  }
  EXPECT_TRUE(served.ok()) << served;
}

INSTANTIATE_TEST_SUITE_P(Kinds, SilentVerifierTest, ::testing::Bool(), [](const auto& info) {
  return info.param ? "AnswersOtherSteps" : "IsSilent";
});

}  // namespace
}  // namespace bastion
