// Once the process had no descriptor left for a new connection, gRPC's listener never accepted
// again, also after descriptors were free. Only a restart helped (CVE-2023-4785).
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/host/service_host.h"
#include "common/shm/shared_segment.h"
#include "gtest/gtest.h"
#include "tests/support/lasting_call.h"
#include "tests/support/start_symbolizer.h"

namespace bastion::wire {
namespace {

class ListenerNeverAcceptsAgainTest : public ::testing::Test {
 protected:
  ListenerNeverAcceptsAgainTest() {
    testing::StartSymbolizer();
    getrlimit(RLIMIT_NOFILE, &limit_);
    HostOptions options;
    options.addresses = {"127.0.0.1:0"};
    options.reflection = true;  // LastingCall needs it.
    auto host = ServiceHost::Start(options, {});
    EXPECT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }
  ~ListenerNeverAcceptsAgainTest() override { setrlimit(RLIMIT_NOFILE, &limit_); }

  std::string Address() const { return absl::StrCat("127.0.0.1:", host_->port()); }

  // Opens connections for which the server has no descriptor, and waits until it has closed them.
  void Flood() {
    std::vector<Descriptor> sockets;
    for (int i = 0; i < 50; ++i) sockets.emplace_back(socket(AF_INET, SOCK_STREAM, 0));
    // All numbers below that of the first socket are in use.
    const rlimit none_left = {static_cast<rlim_t>(sockets[0].get()), limit_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<in_port_t>(host_->port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval patience = {.tv_sec = 10, .tv_usec = 0};
    for (const Descriptor& socket : sockets) {
      ASSERT_EQ(connect(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
      setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    char byte = 0;
    for (const Descriptor& socket : sockets) {
      ASSERT_EQ(recv(socket.get(), &byte, 1, 0), 0) << "the connection stays open";
    }
  }

  rlimit limit_ = {};
  std::unique_ptr<ServiceHost> host_;
};

TEST_F(ListenerNeverAcceptsAgainTest, AfterDescriptorsRanOut) {
  testing::LastingCall bystander(Address());
  ASSERT_TRUE(bystander.Ask());

  Flood();
  ASSERT_TRUE(bystander.Ask()) << "the bystander's stream ended";
  setrlimit(RLIMIT_NOFILE, &limit_);

  testing::LastingCall client(Address());
  EXPECT_TRUE(client.Ask());
}

}  // namespace
}  // namespace bastion::wire
