// A connection delivered corrupted bytes. gRPC ended the verifier's stream with UNKNOWN, "Stream
// removed". Only UNAVAILABLE and DEADLINE_EXCEEDED counted as a lost verifier, so requests failed
// that would have continued when the verifier was reachable again.
#include <gtest/gtest.h>

#include <string>

#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/host/service_host.h"
#include "orchestrator/remote/remote_verifier.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

namespace proto = internal::v1;

class BrokenVerifier final : public proto::VerifierService::Service {
 public:
  grpc::Status Steps(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<proto::VerifierReply, proto::VerifierRequest>*) override {
    return {grpc::StatusCode::UNKNOWN, "Stream removed"};
  }
};

TEST(BrokenStreamFailsAnswersTest, AStreamThatEndsWithAnyCodeIsALostVerifier) {
  const testing::TempFolder folder;
  const std::string address = "unix:" + folder.File("verifier.sock");
  BrokenVerifier service;
  wire::HostOptions options;
  options.addresses = {address};
  const auto host = wire::ServiceHost::Start(options, {&service});
  ASSERT_TRUE(host.ok()) << host.status();
  RemoteVerifier verifier({.address = address, .carrier = wire::CarrierChoice::kInline});
  const absl::Status opened = verifier.Open({1, 0}, {});
  EXPECT_TRUE(absl::IsUnavailable(opened)) << opened;
  EXPECT_TRUE(absl::IsUnavailable(verifier.CheckAlive()));
}

}  // namespace
}  // namespace bastion
