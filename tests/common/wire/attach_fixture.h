// Fixture of the handshake tests: a folder and an AttachServer that sends every message back.
#ifndef BASTION_TESTS_COMMON_WIRE_ATTACH_FIXTURE_H_
#define BASTION_TESTS_COMMON_WIRE_ATTACH_FIXTURE_H_

#include <sys/socket.h>
#include <sys/un.h>

#include <cstring>
#include <memory>
#include <string>

#include "absl/time/clock.h"
#include "common/wire/attach_server.h"
#include "common/wire/attacher.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::wire {

inline constexpr absl::Duration kLongTimeout = absl::Seconds(20);

inline AttachRequest ValidRequest() {
  AttachRequest request;
  request.set_stream(AttachRequest::STREAM_STEPS);
  request.set_layout_version(kLayoutVersion);
  request.set_layout_hash(kLayoutHash);
  return request;
}

// Sends every message back. Ends with an error at a message with a negative `first`.
inline absl::Status EchoAll(std::shared_ptr<SharedChannel> channel) {
  internal::v1::FeatureReply message;
  absl::Status status;
  while ((status = channel->Receive(&message, absl::InfiniteFuture())).ok()) {
    if (message.first() < 0) return absl::InvalidArgumentError("negative");
    if (status = channel->Send(message, absl::InfiniteFuture()); !status.ok()) break;
  }
  return absl::OkStatus();
}

class AttachFixture : public ::testing::Test {
 protected:
  AttachFixture() {
    options_ = OwnUserOptions(folder_.File("shm"), "verifier");
    options_.ring_bytes = 1 << 20;
  }
  void StartServer() {
    auto server = AttachServer::Start(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  AttachReply MakeOffer() {
    AttachReply reply;
    const absl::Status offered = server_->Offer(ValidRequest(), EchoAll, reply);
    EXPECT_TRUE(offered.ok()) << offered;
    return reply;
  }
  // Opens a connection and sends `token`, and also `descriptor` if it is >= 0.
  static Descriptor PresentToken(const AttachReply& offer, const std::string& token,
                                 int descriptor) {
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
  // Waits for the server's answer. Returns whether the server closed the connection.
  static bool IsRefused(const Descriptor& connection) {
    char byte;
    return recv(connection.get(), &byte, 1, 0) <= 0;
  }
  // Expects that a new client can attach and exchange messages.
  void ExpectServes() {
    auto ends = AcceptOffer(MakeOffer());
    ASSERT_TRUE(ends.ok()) << ends.status();
    SharedChannel channel(*std::move(ends));
    internal::v1::FeatureReply message, reply;
    message.set_first(7);
    ASSERT_TRUE(channel.Send(message, absl::Now() + kLongTimeout).ok());
    ASSERT_TRUE(channel.Receive(&reply, absl::Now() + kLongTimeout).ok());
    EXPECT_EQ(reply.first(), 7);
  }

  testing::TempFolder folder_;
  AttachOptions options_;
  std::unique_ptr<AttachServer> server_;
};

}  // namespace bastion::wire

#endif  // BASTION_TESTS_COMMON_WIRE_ATTACH_FIXTURE_H_
