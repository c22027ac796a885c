#include "common/wire/attacher.h"

#include <cstring>

#include "common/wire/protocol.h"
#include "gtest/gtest.h"
#include "tests/common/wire/attach_fixture.h"

namespace bastion::wire {
namespace {

using AttacherTest = AttachFixture;

TEST_F(AttacherTest, RefusesInvalidOffers) {
  StartServer();
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{4096}, uint64_t{8193}, ~uint64_t{63}}) {
    AttachReply offer = MakeOffer();
    offer.set_segment_bytes(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(AcceptOffer(offer).status())) << bytes;
  }
  AttachReply offer = MakeOffer();
  offer.set_socket(std::string(200, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(AcceptOffer(offer).status()));
  offer.set_socket(folder_.File("missing"));
  EXPECT_FALSE(AcceptOffer(offer).ok());
}

TEST_F(AttacherTest, TimesOutIfTheServerNeverAnswers) {
  const std::string path = folder_.File("silent");
  sockaddr_un address{AF_UNIX, {}};
  std::memcpy(address.sun_path, path.data(), path.size());
  const Descriptor silent(socket(AF_UNIX, SOCK_SEQPACKET, 0));
  ASSERT_EQ(bind(silent.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(silent.get(), 1), 0);
  const auto call = [&](grpc::ClientContext*, const AttachRequest&, AttachReply* reply) {
    reply->set_token(std::string(32, 'x'));
    reply->set_socket(path);
    reply->set_segment_bytes(8192);
    return grpc::Status::OK;
  };
  Attacher attacher("unix:///x", CarrierChoice::kAuto, AttachRequest::STREAM_STEPS, call);
  const absl::Time start = absl::Now();
  EXPECT_EQ(*attacher.Attach(start + absl::Milliseconds(200)), nullptr);
  EXPECT_LT(absl::Now() - start, absl::Seconds(1));
}

TEST_F(AttacherTest, CallsOnlyPeersBehindUnixSocketsAndFallsBackToGrpc) {
  StartServer();
  int calls = 0;
  const Attacher::AttachCall call = [&](grpc::ClientContext*, const AttachRequest& request,
                                        AttachReply* reply) {
    ++calls;
    EXPECT_EQ(request.stream(), AttachRequest::STREAM_FEATURES);
    return ToGrpc(server_->Offer(request, EchoAll, *reply));
  };
  const auto attach = [&](const std::string& address, CarrierChoice choice,
                          const Attacher::AttachCall& call) {
    return *Attacher(address, choice, AttachRequest::STREAM_FEATURES, call)
                .Attach(absl::Now() + kLongTimeout);
  };
  EXPECT_EQ(attach("127.0.0.1:1", CarrierChoice::kAuto, call), nullptr);
  EXPECT_EQ(attach("unix:///x", CarrierChoice::kInline, call), nullptr);
  EXPECT_EQ(calls, 0);
  EXPECT_NE(attach("unix:///x", CarrierChoice::kAuto, call), nullptr);
  const auto refuse = [](auto&&...) {
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "it is off");
  };
  EXPECT_EQ(attach("unix:///x", CarrierChoice::kAuto, refuse), nullptr);
}

TEST_F(AttacherTest, CountsFallbacksByReason) {
  const auto stats_after = [](const grpc::Status& reply, TransportStats* stats) {
    Attacher attacher("unix:///x", CarrierChoice::kAuto, AttachRequest::STREAM_STEPS,
                      [&](auto&&...) { return reply; });
    const auto channel = attacher.Attach(absl::Now() + kLongTimeout);
    stats->not_offered += attacher.stats().not_offered;
    stats->handshake_failed += attacher.stats().handshake_failed;
    return channel.ok() ? absl::OkStatus() : channel.status();
  };
  TransportStats off, broken, gone;
  EXPECT_TRUE(stats_after({grpc::StatusCode::UNIMPLEMENTED, "it is off"}, &off).ok());
  EXPECT_EQ(off.not_offered, 1);
  EXPECT_EQ(off.handshake_failed, 0);
  EXPECT_TRUE(stats_after(grpc::Status::OK, &broken).ok());  // The offer is empty.
  EXPECT_EQ(broken.not_offered, 0);
  EXPECT_EQ(broken.handshake_failed, 1);
  EXPECT_TRUE(absl::IsUnavailable(stats_after({grpc::StatusCode::UNAVAILABLE, "no peer"}, &gone)));
  EXPECT_EQ(gone.not_offered, 0);
  EXPECT_EQ(gone.handshake_failed, 0);
}

TEST(CarrierChoiceTest, ParsesAutoAndInline) {
  EXPECT_EQ(*ParseCarrierChoice("auto"), CarrierChoice::kAuto);
  EXPECT_EQ(*ParseCarrierChoice("inline"), CarrierChoice::kInline);
  EXPECT_TRUE(absl::IsInvalidArgument(ParseCarrierChoice("gpu").status()));
}

}  // namespace
}  // namespace bastion::wire
