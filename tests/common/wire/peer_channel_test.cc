#include "common/wire/peer_channel.h"

#include "absl/strings/str_cat.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/base/clock.h"
#include "common/host/service_host.h"
#include "common/wire/protocol.h"
#include "gtest/gtest.h"
#include "tests/support/manual_clock.h"
#include "tests/support/temp_folder.h"

namespace bastion::wire {
namespace {

class PeerChannelTest : public ::testing::Test {
 protected:
  const testing::TempFolder folder_;
  testing::ManualClock clock_;
  const std::string address_ = absl::StrCat("unix:", folder_.File("peer.sock"));
  PeerChannel peer_{address_, Security::None(), &clock_};
  const std::shared_ptr<grpc::Channel> first_ = peer_.get();
};

TEST_F(PeerChannelTest, APeerThatDoesNotAnswerForSecondsGetsANewChannel) {
  peer_.Report(absl::UnavailableError("no connection"));
  clock_.Advance(PeerChannel::kPatience - absl::Milliseconds(1));
  peer_.Report(absl::DeadlineExceededError("no answer"));
  EXPECT_EQ(peer_.get(), first_);
  clock_.Advance(absl::Milliseconds(1));
  peer_.Report(absl::UnavailableError("no connection"));
  const std::shared_ptr<grpc::Channel> second = peer_.get();
  EXPECT_NE(second, first_);
  // The new one has as much time.
  clock_.Advance(PeerChannel::kPatience - absl::Milliseconds(1));
  peer_.Report(absl::UnavailableError("no connection"));
  EXPECT_EQ(peer_.get(), second);
}

TEST_F(PeerChannelTest, AnyAnswerKeepsTheChannel) {
  for (const absl::Status& answer :
       {absl::OkStatus(), absl::UnimplementedError("an older version")}) {
    peer_.Report(absl::UnavailableError("no connection"));
    clock_.Advance(PeerChannel::kPatience / 2);
    peer_.Report(answer);
    clock_.Advance(PeerChannel::kPatience / 2);
    peer_.Report(absl::UnavailableError("no connection"));
    EXPECT_EQ(peer_.get(), first_) << answer;
    peer_.Report(absl::OkStatus());
  }
}

// Answers every request of a stream.
class AnsweringVerifier final : public internal::v1::VerifierService::Service {
 public:
  grpc::Status Steps(grpc::ServerContext*,
                     grpc::ServerReaderWriter<internal::v1::VerifierReply,
                                              internal::v1::VerifierRequest>* stream) override {
    internal::v1::VerifierRequest request;
    while (stream->Read(&request)) stream->Write({});
    return grpc::Status::OK;
  }
};

TEST_F(PeerChannelTest, ACallOnAReplacedChannelGoesOn) {
  AnsweringVerifier service;
  HostOptions options;
  options.addresses = {address_};
  const auto host = ServiceHost::Start(options, {&service});
  ASSERT_TRUE(host.ok()) << host.status();
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(SteadyNow() + absl::Seconds(20)));
  const auto stream = internal::v1::VerifierService::NewStub(peer_.get())->Steps(&context);
  internal::v1::VerifierReply reply;
  ASSERT_TRUE(stream->Write({}) && stream->Read(&reply));
  peer_.Report(absl::UnavailableError("no connection"));
  clock_.Advance(PeerChannel::kPatience);
  peer_.Report(absl::UnavailableError("no connection"));
  ASSERT_NE(peer_.get(), first_);
  EXPECT_TRUE(stream->Write({}) && stream->Read(&reply));
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

}  // namespace
}  // namespace bastion::wire
