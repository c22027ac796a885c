// Tests the handshake, and the connections that it must refuse.
#include "common/wire/attach_server.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <stdexcept>
#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/wire/attach_fixture.h"

namespace bastion::wire {
namespace {

namespace proto = internal::v1;
using ::testing::HasSubstr;
using AttachServerTest = AttachFixture;

TEST_F(AttachServerTest, ServesStreamsInSequenceAndConcurrently) {
  StartServer();
  for (int i = 0; i < 100; ++i) ExpectServes();  // More streams than may be open concurrently.
  auto first = AcceptOffer(MakeOffer()), second = AcceptOffer(MakeOffer());
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(first->epoch, second->epoch);
  ExpectServes();
}

TEST_F(AttachServerTest, PassesTheRingInGpuMemory) {
  StartServer();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);  // A pipe replaces the GPU memory.
  const Descriptor other_end(ends[1]);
  auto ring = DeviceRingWriter::Create(Descriptor(ends[0]), 4096, "a GPU");
  ASSERT_TRUE(ring.ok()) << ring.status();
  ASSERT_EQ((*ring)->Reserve(64), 0u);
  AttachReply offer;
  ASSERT_TRUE(server_->Offer(ValidRequest(), EchoAll, offer, *ring).ok());
  EXPECT_EQ(offer.device_bytes(), 4096u);
  auto taken = AcceptOffer(offer);
  ASSERT_TRUE(taken.ok()) << taken.status();
  SharedChannel channel(*std::move(taken));
  std::unique_ptr<DeviceRingEnds> device = channel.TakeDevice();
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(channel.TakeDevice(), nullptr);
  EXPECT_EQ(device->capacity, 4096u);
  EXPECT_EQ(device->uuid, "a GPU");
  const auto import =
      [&](const ExportedMemory& exported) -> absl::StatusOr<std::shared_ptr<const char>> {
    char byte = 0;
    EXPECT_EQ(write(other_end.get(), "x", 1), 1);
    EXPECT_EQ(read(exported.descriptor, &byte, 1), 1);
    EXPECT_EQ(byte, 'x');
    return std::shared_ptr<const char>();
  };
  const auto reader = DeviceRingReader::Import(std::move(*device), {"a GPU", DType::kF32, import});
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->Check(0, 64).ok());
  EXPECT_FALSE((*reader)->Check(0, 80).ok());
  EXPECT_EQ(SharedChannel(*AcceptOffer(MakeOffer())).TakeDevice(), nullptr);
  ExpectServes();
}

TEST_F(AttachServerTest, ATokenIsValidOnlyOnce) {
  StartServer();
  const AttachReply offer = MakeOffer();
  EXPECT_EQ(offer.token().size(), 32u);
  EXPECT_NE(offer.token(), MakeOffer().token());
  ASSERT_TRUE(AcceptOffer(offer).ok());
  EXPECT_TRUE(absl::IsUnavailable(AcceptOffer(offer).status()));
  ExpectServes();
}

TEST_F(AttachServerTest, AnUnknownTokenIsRefused) {
  StartServer();
  AttachReply offer = MakeOffer();
  for (const std::string& token : {std::string("guess"), std::string(32, 'x'), std::string(33, 'x'),
                                   offer.token().substr(1), offer.token() + "x"}) {
    AttachReply wrong = offer;
    wrong.set_token(token);
    EXPECT_FALSE(AcceptOffer(wrong).ok());
  }
  EXPECT_TRUE(AcceptOffer(offer).ok());
}

TEST_F(AttachServerTest, ADifferentUserIsRefused) {
  options_.peer = geteuid() + 1;
  StartServer();
  EXPECT_TRUE(absl::IsUnavailable(AcceptOffer(MakeOffer()).status()));
}

TEST_F(AttachServerTest, UnsealedMemoryAndWrongSizesAreRefused) {
  StartServer();
  const AttachReply first = MakeOffer(), second = MakeOffer(), third = MakeOffer();
  const Descriptor unsealed(memfd_create("unsealed", MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(unsealed.get(), static_cast<off_t>(first.segment_bytes())), 0);
  EXPECT_TRUE(IsRefused(PresentToken(first, first.token(), unsealed.get())));
  const auto truncated = SharedSegment::Create(first.segment_bytes() - 4096);
  EXPECT_TRUE(IsRefused(PresentToken(second, second.token(), truncated->descriptor())));
  EXPECT_TRUE(IsRefused(PresentToken(third, third.token(), -1)));
  ExpectServes();
}

TEST_F(AttachServerTest, SurvivesClientsThatDisconnectDuringTheHandshake) {
  StartServer();
  const AttachReply offer = MakeOffer();
  for (int i = 0; i < 10; ++i) PresentToken(offer, "x", -1);
  const auto segment = SharedSegment::Create(offer.segment_bytes());
  PresentToken(offer, offer.token(), segment->descriptor());
  ExpectServes();
}

TEST_F(AttachServerTest, ADifferentLayoutIsRefused) {
  StartServer();
  AttachReply reply;
  AttachRequest request = ValidRequest();
  request.set_layout_version(kLayoutVersion + 1);
  EXPECT_TRUE(absl::IsFailedPrecondition(server_->Offer(request, EchoAll, reply)));
  request = ValidRequest();
  request.set_layout_hash(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(server_->Offer(request, EchoAll, reply)));
  EXPECT_TRUE(reply.token().empty());
}

TEST_F(AttachServerTest, OpenOffersAreLimited) {
  StartServer();
  AttachReply reply;
  absl::Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i)
    status = server_->Offer(ValidRequest(), EchoAll, reply);
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
}

TEST_F(AttachServerTest, AFolderThatOtherUsersCanEnterIsRefused) {
  ASSERT_EQ(mkdir(options_.folder.c_str(), 0755), 0);
  const absl::Status status = AttachServer::Start(options_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr(options_.folder));
  ASSERT_EQ(chmod(options_.folder.c_str(), 0700), 0);
  StartServer();
  ExpectServes();
}

TEST_F(AttachServerTest, AStaleSocketIsReplaced) {
  ASSERT_EQ(mkdir(options_.folder.c_str(), 0700), 0);
  ASSERT_EQ(close(open((options_.folder + "/verifier.attach").c_str(), O_CREAT | O_WRONLY, 0600)),
            0);
  StartServer();
  ExpectServes();
}

TEST_F(AttachServerTest, ThePeerReceivesTheStatusThatServeReturns) {
  StartServer();
  auto ends = AcceptOffer(MakeOffer());
  ASSERT_TRUE(ends.ok()) << ends.status();
  SharedChannel channel(*std::move(ends));
  proto::FeatureReply message;
  message.set_first(-1);
  ASSERT_TRUE(channel.Send(message, absl::Now() + kLongTimeout).ok());
  EXPECT_EQ(channel.Receive(&message, absl::Now() + kLongTimeout),
            absl::InvalidArgumentError("negative"));
}

// A stream whose copy fails, as the start of its thread may.
struct ThrowsWhenCopied {
  explicit ThrowsWhenCopied(const std::atomic<bool>* armed_in) : armed(armed_in) {}
  ThrowsWhenCopied(const ThrowsWhenCopied& other) : armed(other.armed) {
    if (*armed) throw std::runtime_error("no thread");
  }
  absl::Status operator()(const std::shared_ptr<SharedChannel>& /*channel*/) const {
    return absl::OkStatus();
  }
  const std::atomic<bool>* armed;
};

TEST_F(AttachServerTest, AStreamThatCannotStartEndsAlone) {
  StartServer();
  std::atomic<bool> armed{false};
  AttachReply offer;
  ASSERT_TRUE(server_->Offer(ValidRequest(), ThrowsWhenCopied(&armed), offer).ok());
  armed = true;
  auto ends = AcceptOffer(offer);
  ASSERT_TRUE(ends.ok()) << ends.status();
  SharedChannel channel(*std::move(ends));
  proto::FeatureReply message;
  EXPECT_TRUE(absl::IsUnavailable(channel.Receive(&message, absl::Now() + kLongTimeout)));
  ExpectServes();
}

TEST_F(AttachServerTest, StoppingTheServerEndsItsStreams) {
  StartServer();
  auto ends = AcceptOffer(MakeOffer());
  ASSERT_TRUE(ends.ok()) << ends.status();
  SharedChannel channel(*std::move(ends));
  server_.reset();
  proto::FeatureReply message;
  EXPECT_TRUE(absl::IsUnavailable(channel.Receive(&message, absl::Now() + kLongTimeout)));
  EXPECT_TRUE(std::filesystem::is_empty(options_.folder));
}

TEST_F(AttachServerTest, StopsWhileAClientSendsContinuously) {
  StartServer();
  AttachReply offer;
  const auto listen = [](const std::shared_ptr<SharedChannel>& channel) {
    proto::FeatureReply message;
    while (channel->Receive(&message, absl::InfiniteFuture()).ok()) {
      absl::SleepFor(absl::Milliseconds(1));  // Meanwhile, the client sends its next message.
    }
    return absl::OkStatus();
  };
  ASSERT_TRUE(server_->Offer(ValidRequest(), listen, offer).ok());
  auto ends = AcceptOffer(offer);
  ASSERT_TRUE(ends.ok()) << ends.status();
  SharedChannel channel(*std::move(ends));
  const absl::Time start = absl::Now();
  std::thread sending([&] {
    const proto::FeatureReply message;
    while (absl::Now() < start + kLongTimeout && channel.Send(message, start + kLongTimeout).ok()) {
    }
  });
  absl::SleepFor(absl::Milliseconds(50));
  server_.reset();
  EXPECT_LT(absl::Now() - start, kLongTimeout / 2);
  sending.join();
}

TEST_F(AttachServerTest, StopsEvenIfNoDescriptorsAreFree) {
  StartServer();
  const AttachReply offer = MakeOffer();
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

}  // namespace
}  // namespace bastion::wire
