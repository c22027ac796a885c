#include "common/base/peer_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(HostOfAddressTest, AnIpv4AddressIsAHost) {
  EXPECT_EQ(HostOfAddress("192.0.2.1"), "192.0.2.1");
  EXPECT_EQ(HostOfAddress("::ffff:192.0.2.1"), "192.0.2.1");
}

TEST(HostOfAddressTest, AnIpv6NetworkIsAHost) {
  EXPECT_EQ(HostOfAddress("2001:db8:1:2::3"), HostOfAddress("2001:db8:1:2:ffff:4::5"));
  EXPECT_NE(HostOfAddress("2001:db8:1:2::3"), HostOfAddress("2001:db8:1:3::3"));
  EXPECT_EQ(HostOfAddress("fe80::1%eth0"), HostOfAddress("fe80::2"));
}

TEST(HostOfAddressTest, OtherTextsAreNoHost) {
  for (const char* text : {"", "localhost", "192.0.2", "1:2:3", "[::1]"}) {
    EXPECT_EQ(HostOfAddress(text), "") << text;
  }
}

TEST(HostOfPeerTest, ThePortAndTheFormDoNotMatter) {
  EXPECT_EQ(HostOfPeer("ipv4:192.0.2.1:4242"), "192.0.2.1");
  EXPECT_EQ(HostOfPeer("ipv6:[2001:db8::1]:4242"), "2001:db8::");
  EXPECT_EQ(HostOfPeer("ipv6:%5B2001:db8::1%5D:4242"), "2001:db8::");
}

TEST(HostOfPeerTest, LocalSocketsHaveNoHost) {
  for (const char* peer :
       {"", "unix:", "unix:/run/a.sock", "fd:7", "ipv4:", "ipv6:[", "ipv4:x:1"}) {
    EXPECT_EQ(HostOfPeer(peer), "") << peer;
  }
}

TEST(HostOfSocketTest, IsThatOfThePeer) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 1), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const int client = socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(connect(client, reinterpret_cast<sockaddr*>(&address), size), 0);
  EXPECT_EQ(HostOfSocket(client), "127.0.0.1");
  close(client);
  close(listener);
  std::array<int, 2> pair;
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()), 0);
  EXPECT_EQ(HostOfSocket(pair[0]), "");
  for (const int descriptor : pair) close(descriptor);
  EXPECT_EQ(HostOfSocket(-1), "");
}

}  // namespace
}  // namespace bastion
