// A verifier returned within 200 ms after its stream broke. The orchestrator was connected again,
// but the first request failed with the error of the old stream, without an attempt to open a new
// one.
#include <atomic>
#include <string>

#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/host/service_host.h"
#include "gtest/gtest.h"
#include "orchestrator/remote/remote_verifier.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

namespace proto = internal::v1;

// Its first stream breaks at once.
class RestartedVerifier final : public proto::VerifierService::Service {
 public:
  grpc::Status GetInfo(grpc::ServerContext*, const proto::GetInfoRequest*,
                       proto::TargetInfo*) override {
    return grpc::Status::OK;
  }
  grpc::Status Steps(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<proto::VerifierReply, proto::VerifierRequest>* stream) override {
    if (streams_++ == 0) return {grpc::StatusCode::UNAVAILABLE, "broken"};
    proto::VerifierRequest request;
    while (stream->Read(&request)) {
      proto::VerifierReply reply;
      reply.set_step(request.step());
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }

 private:
  std::atomic<int> streams_ = 0;
};

TEST(FirstRequestAfterRestartFailsTest, AnAnswerToInfoOpensTheStreamAtOnce) {
  const testing::TempFolder folder;
  const std::string address = "unix:" + folder.File("verifier.sock");
  RestartedVerifier service;
  wire::HostOptions options;
  options.addresses = {address};
  options.reflection = false;
  const auto host = wire::ServiceHost::Start(options, {&service});
  ASSERT_TRUE(host.ok()) << host.status();
  RemoteVerifier verifier({.address = address, .carrier = wire::CarrierChoice::kInline});
  EXPECT_FALSE(verifier.Open({1, 0}, {}).ok());
  ASSERT_TRUE(verifier.Info().ok());
  const absl::Status opened = verifier.Open({2, 0}, {});
  EXPECT_TRUE(opened.ok()) << opened;
}

}  // namespace
}  // namespace bastion
