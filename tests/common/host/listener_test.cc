#include "common/host/listener.h"

#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/host/service_host.h"
#include "common/wire/descriptor_passing.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"
#include "tests/support/lasting_call.h"
#include "tests/support/temp_folder.h"

namespace bastion::wire {
namespace {

using grpc::health::v1::Health;
using grpc::health::v1::HealthCheckResponse;
using testing::ChannelTo;
using testing::HttpConnection;
using testing::LastingCall;

class ListenerTest : public ::testing::Test {
 protected:
  void Serve(const std::vector<std::string>& addresses) {
    options_.addresses = addresses;
    options_.reflection = true;  // gRPC's health service needs a synchronous service beside it.
    auto host = ServiceHost::Start(options_, {});
    ASSERT_TRUE(host.ok()) << host.status();
    host_ = *std::move(host);
  }
  // Asks over a new connection. Tries again for up to 20 seconds if `patient`.
  static grpc::Status Check(const std::string& address, bool patient) {
    const auto stub = Health::NewStub(ChannelTo(address));
    grpc::ClientContext context;
    context.set_wait_for_ready(patient);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    HealthCheckResponse reply;
    return stub->Check(&context, {}, &reply);
  }
  std::string Address() const { return absl::StrCat("127.0.0.1:", host_->port()); }

  HostOptions options_;
  std::unique_ptr<ServiceHost> host_;
  testing::TempFolder folder_;
};

// A connection with a health check that lasts. Connects, also if that takes several attempts.
class Watcher {
 public:
  explicit Watcher(const std::string& address) : stub_(Health::NewStub(ChannelTo(address))) {
    context_.set_wait_for_ready(true);
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    stream_ = stub_->Watch(&context_, {});
  }
  ~Watcher() {
    context_.TryCancel();
    (void)stream_->Finish();
  }
  // Waits for the next status. False if the call has ended.
  bool Read() { return stream_->Read(&reply_); }

 private:
  const std::unique_ptr<Health::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<HealthCheckResponse>> stream_;
  HealthCheckResponse reply_;
};

TEST_F(ListenerTest, IdleConnectionsMakeRoomForNewOnes) {
  options_.connections.max_connections = 3;
  std::atomic<int> closed = 0;
  options_.on_connection_refused = [&] { ++closed; };
  Serve({"127.0.0.1:0"});
  std::vector<std::unique_ptr<HttpConnection>> idle;
  for (int i = 0; i < 20; ++i) {
    idle.push_back(std::make_unique<HttpConnection>(host_->port()));
    const grpc::Status status = Check(Address(), false);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }
  EXPECT_GE(closed, 17);
  host_->Shutdown(absl::ZeroDuration());
}

TEST_F(ListenerTest, TheConnectionWithoutCallsForLongestIsClosed) {
  options_.connections.max_connections = 3;
  Serve({"127.0.0.1:0"});
  LastingCall call(Address());
  ASSERT_TRUE(call.Ask());
  HttpConnection old(host_->port());
  HttpConnection second(host_->port()), third(host_->port());
  (void)old.ReceiveAll();
  EXPECT_FALSE(old.IsOpen());
  EXPECT_TRUE(second.IsOpen());
  EXPECT_TRUE(third.IsOpen());
  EXPECT_TRUE(call.Ask()) << "the oldest connection has a call";
}

// Health checks need no right, so they must not keep others out.
TEST_F(ListenerTest, HealthChecksThatLastMakeRoomForNewConnections) {
  options_.connections.max_connections = 3;
  Serve({"127.0.0.1:0"});
  StopWatch watch;
  std::vector<std::unique_ptr<Watcher>> watchers;
  for (int i = 0; i < 6; ++i) {
    watchers.push_back(std::make_unique<Watcher>(Address()));
    EXPECT_TRUE(watchers.back()->Read());
  }
  const grpc::Status status = Check(Address(), true);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_LT(watch.Lap(), absl::Seconds(15)) << "the health checks have ended by themselves";
}

class ListenerLimitTest : public ListenerTest, public ::testing::WithParamInterface<const char*> {};

TEST_P(ListenerLimitTest, ConnectionsWithCallsStayAndNewOnesAreRefused) {
  options_.connections.max_connections = 2;
  std::atomic<int> refused = 0;
  options_.on_connection_refused = [&] { ++refused; };
  Serve({absl::StrCat(GetParam(), ":0")});
  const std::string address = absl::StrCat(GetParam(), ":", host_->port());
  LastingCall first(address);
  ASSERT_TRUE(first.Ask());
  auto second = std::make_unique<LastingCall>(address);
  ASSERT_TRUE(second->Ask());
  EXPECT_EQ(Check(address, false).error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_GE(refused, 1);
  EXPECT_TRUE(first.Ask());
  EXPECT_TRUE(second->Ask());
  second.reset();
  const grpc::Status status = Check(address, true);
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(first.Ask());
}
INSTANTIATE_TEST_SUITE_P(Addresses, ListenerLimitTest, ::testing::Values("127.0.0.1", "[::1]"),
                         [](const auto& info) {
                           return std::string(info.index == 0 ? "IPv4" : "IPv6");
                         });

TEST_F(ListenerTest, ConnectionsOverUnixSocketsAreNotReplaced) {
  options_.connections.max_connections = 1;
  Serve({"unix://" + folder_.File("s.sock")});
  const sockaddr_un address = *SocketAddress(folder_.File("s.sock"));
  const Descriptor idle(socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(connect(idle.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(Check("unix://" + folder_.File("s.sock"), false).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ListenerTest, TheLimitLeavesDescriptorsForOthers) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit low = {100, limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const auto listener = Listener::Open({"127.0.0.1:0"}, {});
  setrlimit(RLIMIT_NOFILE, &limit);
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_GT((*listener)->max_connections(), 30);
  EXPECT_LT((*listener)->max_connections(), 75);
}

TEST_F(ListenerTest, AClientThatSaysNothingIsClosed) {
  options_.connections.handshake = absl::Milliseconds(100);
  Serve({"127.0.0.1:0"});
  HttpConnection silent(host_->port());
  StopWatch watch;
  (void)silent.ReceiveAll();
  EXPECT_LT(watch.Lap(), absl::Seconds(15));
}

TEST_F(ListenerTest, OnlyItsUserMayConnectToAUnixSocket) {
  const mode_t mask = umask(0);
  Serve({"unix://" + folder_.File("s.sock")});
  umask(mask);
  struct stat info {};
  ASSERT_EQ(stat(folder_.File("s.sock").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600);
}

TEST_F(ListenerTest, SocketsOfAKilledProcessAreReplacedAndRemovedAtTheEnd) {
  const std::string path = folder_.File("s.sock");
  const sockaddr_un address = *SocketAddress(path);
  const Descriptor old(socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(bind(old.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  Serve({"unix://" + path, "localhost:0"});
  EXPECT_TRUE(Check("unix://" + path, false).ok());
  // No name: gRPC's resolver leaks it if the process ends soon.
  EXPECT_TRUE(Check(absl::StrCat("127.0.0.1:", host_->port()), false).ok());
  host_->Shutdown(absl::ZeroDuration());
  EXPECT_NE(access(path.c_str(), F_OK), 0);
  EXPECT_EQ(Check(Address(), false).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ListenerTest, AddressesThatCannotBeUsedAreNamed) {
  Serve({"127.0.0.1:0"});
  for (const std::string& address :
       {Address(), std::string("unix-abstract:name"), std::string("nowhere"),
        std::string("127.0.0.1:port"), "unix://" + std::string(200, 'x')}) {
    const auto listener = Listener::Open({address}, {});
    EXPECT_TRUE(absl::IsUnavailable(listener.status())) << listener.status();
    EXPECT_NE(listener.status().message().find(address), std::string::npos) << listener.status();
  }
}

}  // namespace
}  // namespace bastion::wire
