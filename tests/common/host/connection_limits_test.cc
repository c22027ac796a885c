#include "common/host/connection_limits.h"

#include "common/base/clock.h"
#include "common/host/service_host.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion::wire {
namespace {

TEST(ConnectionLimitsTest, KeepaliveFollowsThePatienceWithClients) {
  for (const auto& [patience, keepalive, timeout] :
       {std::tuple{60, 20, 10}, {30, 20, 10}, {6, 4, 2}, {0, 1, 1}}) {
    ConnectionLimits limits;
    SetKeepaliveWithin(absl::Seconds(patience), limits);
    EXPECT_EQ(limits.keepalive, absl::Seconds(keepalive)) << patience;
    EXPECT_EQ(limits.keepalive_timeout, absl::Seconds(timeout)) << patience;
  }
  ConnectionLimits limits;
  SetKeepaliveWithin(absl::InfiniteDuration(), limits);
  EXPECT_EQ(limits.keepalive, ConnectionLimits().keepalive);
}

TEST(ConnectionLimitsTest, AClientThatAnswersNoPingIsClosed) {
  HostOptions options;
  options.addresses = {"127.0.0.1:0"};
  options.reflection = true;  // The server needs a service.
  options.connections.keepalive = options.connections.keepalive_timeout = absl::Milliseconds(200);
  const auto host = ServiceHost::Start(options, {});
  ASSERT_TRUE(host.ok()) << host.status();
  testing::HttpConnection client((*host)->port());
  // The preface of HTTP/2, and settings without a value.
  client.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + std::string("\0\0\0\4\0\0\0\0\0", 9));
  StopWatch watch;
  EXPECT_FALSE(client.ReceiveAll().empty());
  EXPECT_LT(watch.Lap(), absl::Seconds(15));
}

}  // namespace
}  // namespace bastion::wire
