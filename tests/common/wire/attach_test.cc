// The handshake, and everybody who must not get through it.
#include "common/wire/attach.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

namespace proto = internal::v1;
using ::testing::HasSubstr;

constexpr absl::Duration kLong = absl::Seconds(20);

AttachRequest Request() {
  AttachRequest request;
  request.set_stream(AttachRequest::STREAM_STEPS);
  request.set_layout_version(kLayoutVersion);
  request.set_layout_hash(kLayoutHash);
  return request;
}

// Sends every message back.
absl::Status EchoAll(std::shared_ptr<SharedChannel> channel) {
  proto::FeatureReply message;
  absl::Status status;
  while ((status = channel->Receive(&message, absl::InfiniteFuture())).ok()) {
    if (message.first() < 0) return absl::InvalidArgumentError("negative");
    if (status = channel->Send(message, absl::InfiniteFuture()); !status.ok()) break;
  }
  return absl::OkStatus();
}

class AttachTest : public ::testing::Test {
 protected:
  AttachTest() {
    char pattern[] = "/tmp/bastion_attach_XXXXXX";
    folder_ = mkdtemp(pattern);
    options_ = AttachIn(folder_ + "/shm", "verifier");
    options_.ring_bytes = 1 << 20;
  }
  ~AttachTest() override {
    server_.reset();
    std::filesystem::remove_all(folder_);
  }
  void Start() {
    auto server = AttachServer::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  AttachReply Offer() {
    AttachReply reply;
    const absl::Status offered = server_->Offer(Request(), EchoAll, reply);
    EXPECT_TRUE(offered.ok()) << offered;
    return reply;
  }
  // A connection over which a client shows `token` and hands over `descriptor`.
  static Descriptor Show(const AttachReply& offer, const std::string& token, int descriptor) {
    Descriptor connection(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    sockaddr_un address{AF_UNIX, {}};
    std::memcpy(address.sun_path, offer.socket().data(), offer.socket().size());
    EXPECT_EQ(connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    iovec part = {const_cast<char*>(token.data()), token.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (descriptor >= 0) {
      message.msg_control = control;
      message.msg_controllen = sizeof control;
      cmsghdr* const header = CMSG_FIRSTHDR(&message);
      *header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS};
      std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    EXPECT_GE(sendmsg(connection.get(), &message, 0), 0);
    return connection;
  }
  static bool Refused(const Descriptor& connection) {
    char byte;
    return recv(connection.get(), &byte, 1, 0) <= 0;
  }
  // The service is still well.
  void ExpectServes() {
    auto ends = TakeOffer(Offer());
    ASSERT_TRUE(ends.ok()) << ends.status();
    SharedChannel channel(*std::move(ends));
    proto::FeatureReply message, answer;
    message.set_first(7);
    ASSERT_TRUE(channel.Send(message, absl::Now() + kLong).ok());
    ASSERT_TRUE(channel.Receive(&answer, absl::Now() + kLong).ok());
    EXPECT_EQ(answer.first(), 7);
  }

  std::string folder_;
  AttachOptions options_;
  std::unique_ptr<AttachServer> server_;
};

TEST_F(AttachTest, StreamsOneAfterAnotherAndTogether) {
  Start();
  for (int i = 0; i < 100; ++i) ExpectServes();  // More than may be open at once.
  auto first = TakeOffer(Offer()), second = TakeOffer(Offer());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->epoch, second->epoch);
  ExpectServes();
}

TEST_F(AttachTest, ARingOfAGpuIsHandedOverToo) {
  Start();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // Stands for the GPU's memory.
  const Descriptor other_end(ends[1]);
  auto ring = DeviceRingWriter::Create(Descriptor(ends[0]), 4096, "a GPU");
  ASSERT_TRUE(ring.ok()) << ring.status();
  ASSERT_EQ((*ring)->Reserve(64), 0u);
  AttachReply offer;
  ASSERT_TRUE(server_->Offer(Request(), EchoAll, offer, *ring).ok());
  EXPECT_EQ(offer.device_bytes(), 4096u);
  auto taken = TakeOffer(offer);
  ASSERT_TRUE(taken.ok()) << taken.status();
  SharedChannel channel(*std::move(taken));
  std::unique_ptr<DeviceRingEnds> device = channel.TakeDevice();
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(channel.TakeDevice(), nullptr);
  EXPECT_EQ(device->capacity, 4096u);
  const auto import = [&](int memory, uint64_t) -> absl::StatusOr<std::shared_ptr<const char>> {
    char byte = 0;
    EXPECT_EQ(write(other_end.get(), "x", 1), 1);
    EXPECT_EQ(read(memory, &byte, 1), 1);
    EXPECT_EQ(byte, 'x');
    return std::shared_ptr<const char>();
  };
  const auto reader = DeviceRingReader::Import(std::move(*device), {"a GPU", DType::kF32, import});
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->Check(0, 64).ok());
  EXPECT_FALSE((*reader)->Check(0, 80).ok());
  EXPECT_EQ(SharedChannel(*TakeOffer(Offer())).TakeDevice(), nullptr);
  ExpectServes();
}

TEST_F(AttachTest, ATokenIsGoodOnce) {
  Start();
  const AttachReply offer = Offer();
  EXPECT_EQ(offer.token().size(), 32u);
  EXPECT_NE(offer.token(), Offer().token());
  ASSERT_TRUE(TakeOffer(offer).ok());
  EXPECT_TRUE(absl::IsUnavailable(TakeOffer(offer).status()));
  ExpectServes();
}

TEST_F(AttachTest, ATokenThatWasNeverOffered) {
  Start();
  AttachReply offer = Offer();
  for (const std::string& token : {std::string("guess"), std::string(32, 'x'), std::string(33, 'x'),
                                   offer.token().substr(1), offer.token() + "x"}) {
    AttachReply wrong = offer;
    wrong.set_token(token);
    EXPECT_FALSE(TakeOffer(wrong).ok());
  }
  EXPECT_TRUE(TakeOffer(offer).ok());
}

TEST_F(AttachTest, AnotherUser) {
  options_.peer = geteuid() + 1;
  Start();
  EXPECT_TRUE(absl::IsUnavailable(TakeOffer(Offer()).status()));
}

TEST_F(AttachTest, MemoryThatIsNotSealedOrOfAnotherSize) {
  Start();
  const AttachReply first = Offer(), second = Offer(), third = Offer();
  const Descriptor unsealed(memfd_create("unsealed", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), static_cast<off_t>(first.segment_bytes())), 0);
  EXPECT_TRUE(Refused(Show(first, first.token(), unsealed.get())));
  const auto truncated = SharedSegment::Create(first.segment_bytes() - 4096);
  EXPECT_TRUE(Refused(Show(second, second.token(), truncated->descriptor())));
  EXPECT_TRUE(Refused(Show(third, third.token(), -1)));
  ExpectServes();
}

TEST_F(AttachTest, WhoHangsUpInTheMiddleHarmsNobody) {
  Start();
  const AttachReply offer = Offer();
  for (int i = 0; i < 10; ++i) Show(offer, "x", -1);
  const auto segment = SharedSegment::Create(offer.segment_bytes());
  Show(offer, offer.token(), segment->descriptor());
  ExpectServes();
}

TEST_F(AttachTest, AnotherLayoutIsRefused) {
  Start();
  AttachReply reply;
  AttachRequest request = Request();
  request.set_layout_version(kLayoutVersion + 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(server_->Offer(request, EchoAll, reply)));
  request = Request();
  request.set_layout_hash(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(server_->Offer(request, EchoAll, reply)));
  EXPECT_TRUE(reply.token().empty());
}

TEST_F(AttachTest, OffersThatNobodyTakesAreLimited) {
  Start();
  AttachReply reply;
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) status = server_->Offer(Request(), EchoAll, reply);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(AttachTest, OffersThatMakeNoSense) {
  Start();
  for (const uint64_t bytes : {uint64_t{0}, uint64_t{4096}, uint64_t{8193}, ~uint64_t{63}}) {
    AttachReply offer = Offer();
    offer.set_segment_bytes(bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(TakeOffer(offer).status())) << bytes;
  }
  AttachReply offer = Offer();
  offer.set_socket(std::string(200, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(TakeOffer(offer).status()));
  offer.set_socket(folder_ + "/nobody");
  EXPECT_FALSE(TakeOffer(offer).ok());
}

TEST_F(AttachTest, AFolderThatOthersMayEnterIsRefused) {
  ASSERT_EQ(mkdir(options_.folder.c_str(), 0755), 0);
  const absl::Status status = AttachServer::Start(options_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(options_.folder));
  ASSERT_EQ(chmod(options_.folder.c_str(), 0700), 0);
  Start();
  ExpectServes();
}

TEST_F(AttachTest, ASocketLeftBehindIsReplaced) {
  ASSERT_EQ(mkdir(options_.folder.c_str(), 0700), 0);
  ASSERT_EQ(close(open((options_.folder + "/verifier.attach").c_str(), O_CREAT | O_WRONLY, 0600)),
            0);
  Start();
  ExpectServes();
}

TEST_F(AttachTest, WhatTheServerReturnsIsToldToThePeer) {
  Start();
  auto ends = TakeOffer(Offer());
  ASSERT_TRUE(ends.ok()) << ends.status();
  SharedChannel channel(*std::move(ends));
  proto::FeatureReply message;
  message.set_first(-1);
  ASSERT_TRUE(channel.Send(message, absl::Now() + kLong).ok());
  EXPECT_EQ(channel.Receive(&message, absl::Now() + kLong), absl::InvalidArgumentError("negative"));
}

TEST_F(AttachTest, TheServersEndIsTheStreams) {
  Start();
  auto ends = TakeOffer(Offer());
  ASSERT_TRUE(ends.ok()) << ends.status();
  SharedChannel channel(*std::move(ends));
  server_.reset();
  proto::FeatureReply message;
  EXPECT_TRUE(absl::IsUnavailable(channel.Receive(&message, absl::Now() + kLong)));
  EXPECT_TRUE(std::filesystem::is_empty(options_.folder));
}

TEST_F(AttachTest, AClientThatNeverPausesDoesNotKeepTheServerFromStopping) {
  Start();
  AttachReply offer;
  const auto listen = [](const std::shared_ptr<SharedChannel>& channel) {
    proto::FeatureReply message;
    while (channel->Receive(&message, absl::InfiniteFuture()).ok()) {
      absl::SleepFor(absl::Milliseconds(1));  // Longer than the client needs for the next one.
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(server_->Offer(Request(), listen, offer).ok());
  auto ends = TakeOffer(offer);
  ASSERT_TRUE(ends.ok()) << ends.status();
  SharedChannel channel(*std::move(ends));
  const absl::Time start = absl::Now();
  std::thread sending([&] {
    const proto::FeatureReply message;
    while (absl::Now() < start + kLong && channel.Send(message, start + kLong).ok()) {
    }
  });
  absl::SleepFor(absl::Milliseconds(50));
  server_.reset();
  EXPECT_LT(absl::Now() - start, kLong / 2);
  sending.join();
}

TEST_F(AttachTest, TheServerStopsWithoutDescriptorsToo) {
  Start();
  const AttachReply offer = Offer();
  const Descriptor connection(socket(AF_UNIX, SOCK_SEQPACKET, 0));
  sockaddr_un address{AF_UNIX, {}};
  std::memcpy(address.sun_path, offer.socket().data(), offer.socket().size());
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {3, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_EQ(connect(connection.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(send(connection.get(), "x", 1, 0), 1);
  absl::SleepFor(absl::Milliseconds(50));
  server_.reset();
  setrlimit(RLIMIT_NOFILE, &before);
}

TEST_F(AttachTest, AServerThatNeverAnswersCostsNoMoreThanThePatience) {
  const std::string path = folder_ + "/deaf";
  sockaddr_un address{AF_UNIX, {}};
  std::memcpy(address.sun_path, path.data(), path.size());
  const Descriptor deaf(socket(AF_UNIX, SOCK_SEQPACKET, 0));
  ASSERT_EQ(bind(deaf.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(listen(deaf.get(), 1), 0);
  const auto ask = [&](grpc::ClientContext*, const AttachRequest&, AttachReply* reply) {
    reply->set_token(std::string(32, 'x'));
    reply->set_socket(path);
    reply->set_segment_bytes(8192);
    return grpc::Status::OK;
  };
  Attacher attacher("unix:///x", CarrierChoice::kAuto, AttachRequest::STREAM_STEPS, ask);
  const absl::Time start = absl::Now();
  EXPECT_EQ(attacher.Attach(start + absl::Milliseconds(200)), nullptr);
  EXPECT_LT(absl::Now() - start, absl::Seconds(1));
}

TEST_F(AttachTest, AClientProposesOnlyToPeersOnThisHostAndFallsBack) {
  Start();
  int asked = 0;
  const Attacher::Ask ask = [&](grpc::ClientContext*, const AttachRequest& request,
                                AttachReply* reply) {
    ++asked;
    EXPECT_EQ(request.stream(), AttachRequest::STREAM_FEATURES);
    return ToGrpc(server_->Offer(request, EchoAll, *reply));
  };
  const auto attach = [&](const std::string& address, CarrierChoice choice,
                          const Attacher::Ask& ask) {
    return Attacher(address, choice, AttachRequest::STREAM_FEATURES, ask)
        .Attach(absl::Now() + kLong);
  };
  EXPECT_EQ(attach("127.0.0.1:1", CarrierChoice::kAuto, ask), nullptr);
  EXPECT_EQ(attach("unix:///x", CarrierChoice::kInline, ask), nullptr);
  EXPECT_EQ(asked, 0);
  EXPECT_NE(attach("unix:///x", CarrierChoice::kAuto, ask), nullptr);
  const auto refuse = [](auto&&...) {
    return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, "it is off");
  };
  EXPECT_EQ(attach("unix:///x", CarrierChoice::kAuto, refuse), nullptr);
}

TEST(CarrierChoiceTest, Names) {
  EXPECT_EQ(*ParseCarrierChoice("auto"), CarrierChoice::kAuto);
  EXPECT_EQ(*ParseCarrierChoice("inline"), CarrierChoice::kInline);
  EXPECT_TRUE(absl::IsInvalidArgument(ParseCarrierChoice("gpu").status()));
}

}  // namespace
}  // namespace bastion::wire
