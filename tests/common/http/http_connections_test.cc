// Which connections of an HTTP server make room for others, and which requests are refused.
#include "common/http/http_connections.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/buffer.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <list>
#include <optional>

#include "absl/time/clock.h"
#include "common/http/http_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion {
namespace {

using testing::Fetch;
using ::testing::HasSubstr;
using Client = testing::HttpConnection;

class HttpConnectionsTest : public ::testing::Test {
 protected:
  // Clients have hours to send something.
  void Start(HttpOptions options) {
    options.listen = "127.0.0.1:0";
    options.timeouts.header = options.timeouts.body = options.timeouts.idle = absl::Hours(1);
    const auto answer = [](const HttpRequest& request, HttpResponse& response) {
      response.Send(200, "text/plain", "answer" + request.body);
    };
    // Answers until the client is gone.
    const auto waits = [this](const HttpRequest&, HttpResponse& response) {
      ++waiting_;
      response.Begin(200, "text/plain");
      while (response.connected()) absl::SleepFor(absl::Milliseconds(1));
    };
    auto server = HttpServer::Start(
        options, {{.method = "GET", .path = "/answer", .handler = answer},
                  {.method = "POST", .path = "/answer", .handler = answer},
                  {.method = "GET", .path = "/waits", .handler = waits},
                  {.method = "GET", .path = "/probe", .handler = answer, .reserved = true}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  [[nodiscard]] int port() const { return server_->port(); }

  // Connections whose requests are being answered.
  void Occupy(int count) {
    for (int i = 0; i < count; ++i) {
      clients_.emplace_back(port()).Send("GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n");
    }
    for (int i = 0; i < 2000 && waiting_ < count; ++i) absl::SleepFor(absl::Milliseconds(10));
    EXPECT_EQ(waiting_, count);
  }
  // Opens `count` connections that send `text`.
  void Open(int count, const std::string& text) {
    for (int i = 0; i < count; ++i) clients_.emplace_back(port()).Send(text);
  }
  // How many clients the server has closed. Waits until there are `expected`.
  size_t CountClosed(size_t expected) {
    size_t closed = 0;
    for (int i = 0; i < 2000; ++i) {
      closed = static_cast<size_t>(std::count_if(
          clients_.begin(), clients_.end(), [](const Client& client) { return !client.IsOpen(); }));
      if (closed >= expected) break;
      absl::SleepFor(absl::Milliseconds(10));
    }
    return closed;
  }

  std::list<Client> clients_;
  std::atomic<int> waiting_{0};
  std::unique_ptr<HttpServer> server_;
};

// All connections that a server for two requests has.
constexpr int kAll = 2 + 16;

TEST_F(HttpConnectionsTest, TheLongestSilentConnectionMakesRoom) {
  Start({.max_connections = 2});
  Open(kAll, "");
  EXPECT_EQ(Fetch(port(), "/answer").body, "answer");
  EXPECT_EQ(CountClosed(1), 1);
  EXPECT_FALSE(clients_.front().IsOpen());
}

TEST_F(HttpConnectionsTest, AnUnfinishedHeaderMakesRoom) {
  Start({.max_connections = 2});
  Open(kAll, "GET /answer HTTP/1.1\r\nHost: local");
  EXPECT_EQ(Fetch(port(), "/answer").body, "answer");
  EXPECT_FALSE(clients_.front().IsOpen());
  // The others can go on.
  clients_.back().Send("host\r\n\r\n");
  EXPECT_THAT(clients_.back().Receive(), HasSubstr("200 OK"));
}

TEST_F(HttpConnectionsTest, AnIdleConnectionMakesRoom) {
  Start({.max_connections = 2});
  for (int i = 0; i < kAll; ++i) {
    Client& client = clients_.emplace_back(port());
    client.Send("GET /answer HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(client.Receive(), HasSubstr("200 OK"));
  }
  EXPECT_EQ(Fetch(port(), "/answer").body, "answer");
  EXPECT_EQ(CountClosed(1), 1);
}

TEST_F(HttpConnectionsTest, AnIdleConnectionMakesRoomBeforeOneThatSendsItsHeader) {
  Start({.max_connections = 2});
  Open(kAll - 1, "GET /answer HTTP/1.1\r\nHost: local");
  Client& idle = clients_.emplace_back(port());
  idle.Send("GET /answer HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(idle.Receive(), HasSubstr("200 OK"));
  absl::SleepFor(absl::Milliseconds(300));  // Longer than a stage is fresh.
  EXPECT_EQ(Fetch(port(), "/answer").body, "answer");
  EXPECT_EQ(CountClosed(1), 1);
  EXPECT_FALSE(idle.IsOpen());
}

TEST_F(HttpConnectionsTest, TheLongestUnfinishedBodyMakesRoomForARequest) {
  Start({.max_connections = 2});
  for (int i = 0; i < 2; ++i) {
    Client& client = clients_.emplace_back(port());
    client.Send(
        "POST /answer HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\n"
        "Content-Length: 4\r\n\r\n");
    EXPECT_THAT(client.Receive(), HasSubstr("100 Continue"));
    client.Send("bo");
  }
  EXPECT_EQ(Fetch(port(), "/answer").body, "answer");
  EXPECT_EQ(CountClosed(1), 1);
  EXPECT_FALSE(clients_.front().IsOpen());
  clients_.back().Send("dy");
  EXPECT_THAT(clients_.back().Receive(), HasSubstr("answerbody"));
}

TEST_F(HttpConnectionsTest, RequestsBeyondTheLimitAreRefusedButProbesAreAnswered) {
  Start({.max_connections = 2});
  Occupy(2);
  const auto refused = Fetch(port(), "/answer");
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.head, HasSubstr("Retry-After: 1"));
  EXPECT_EQ(Fetch(port(), "/probe").body, "answer");
  Open(kAll, "");
  EXPECT_EQ(Fetch(port(), "/probe").body, "answer");
  clients_.clear();  // The answers end, and there are places again.
  for (int i = 0; i < 2000 && Fetch(port(), "/answer").status == 503; ++i) {
    absl::SleepFor(absl::Milliseconds(10));
  }
  EXPECT_EQ(Fetch(port(), "/answer").status, 200);
}

TEST_F(HttpConnectionsTest, LoopbackAddressesHaveNoLimit) {
  Start({.max_connections = 2, .max_connections_per_address = 1});
  Open(kAll - 1, "");
  EXPECT_EQ(Fetch(port(), "/answer").status, 200);
  EXPECT_EQ(CountClosed(0), 0);
}

// A table of at most two connections per address, and a port that fills it.
class AddressLimitTest : public ::testing::Test {
 protected:
  void Prepare(const std::vector<std::string>& trusted) {
    HttpConnectionLimits limits = {
        .max_busy = 100, .reserve = 100, .max_closing = 100, .max_per_host = 2};
    limits.trusted = *AddressList::Parse(trusted);
    connections_.emplace(std::move(limits));
    ASSERT_TRUE(connections_->Prepare().ok());
  }
  void TearDown() override { connections_->Stop(); }

  // Adds a connection that is in `stage` until it is shut down.
  Client& Add(HttpConnection::Stage stage) {
    Client& client = clients_.emplace_back(acceptor_.local_endpoint().port());
    std::atomic<bool> begun{false};
    connections_->Add(acceptor_.accept(), nullptr, [&, stage](HttpConnection& connection) {
      if (stage == HttpConnection::Stage::kAnswer) {
        EXPECT_TRUE(connections_->Admit(connection, /*reserved=*/false));
        EXPECT_TRUE(connections_->BeginAnswer(connection));
      }
      begun = true;
      char byte = 0;
      boost::system::error_code error;
      while (!error.failed()) connection.transport.read_some(boost::asio::buffer(&byte, 1), error);
    });
    while (client.IsOpen() && !begun) absl::SleepFor(absl::Milliseconds(1));
    return client;
  }

  std::list<Client> clients_;
  boost::asio::io_context context_;
  boost::asio::ip::tcp::acceptor acceptor_{context_, {boost::asio::ip::address_v4::loopback(), 0}};
  std::optional<HttpConnections> connections_;
};

TEST_F(AddressLimitTest, AnAddressReplacesItsOwnSilentConnection) {
  Prepare({});
  const Client& silent = Add(HttpConnection::Stage::kRequest);
  const Client& busy = Add(HttpConnection::Stage::kAnswer);
  const Client& other = Add(HttpConnection::Stage::kAnswer);
  EXPECT_FALSE(silent.IsOpen());
  EXPECT_TRUE(busy.IsOpen());
  EXPECT_TRUE(other.IsOpen());
}

TEST_F(AddressLimitTest, AnAddressWithoutSilentConnectionsIsRefused) {
  Prepare({});
  Add(HttpConnection::Stage::kAnswer);
  Add(HttpConnection::Stage::kAnswer);
  EXPECT_FALSE(Add(HttpConnection::Stage::kRequest).IsOpen());
}

TEST_F(AddressLimitTest, ATrustedAddressHasNoLimit) {
  Prepare({"127.0.0.1"});
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(Add(HttpConnection::Stage::kAnswer).IsOpen());
}

TEST_F(HttpConnectionsTest, AWrongTrustedAddressIsAnError) {
  const auto server = HttpServer::Start(
      {.listen = "127.0.0.1:0", .max_connections_per_address = 1, .trusted_addresses = {"proxy"}},
      {});
  EXPECT_TRUE(absl::IsInvalidArgument(server.status())) << server.status();
}

TEST(HttpConnectionLimitsTest, FewDescriptorsLowerAllLimits) {
  const HttpConnectionLimits many = HttpConnectionLimits::Fit(500, 100000);
  EXPECT_EQ(many.max_busy, 500);
  EXPECT_EQ(many.reserve, 16);
  for (const size_t descriptors : {3, 8, 40, 128, 500}) {
    const HttpConnectionLimits few = HttpConnectionLimits::Fit(500, descriptors);
    EXPECT_GE(few.max_busy, 1);
    EXPECT_GE(few.reserve, 1);
    EXPECT_LE(few.max_busy + few.reserve + few.max_closing, descriptors);
  }
}

}  // namespace
}  // namespace bastion
