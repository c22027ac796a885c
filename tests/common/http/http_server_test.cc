#include "common/http/http_server.h"

#include <atomic>
#include <stdexcept>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace bastion {
namespace {

using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpAnswer;
using testing::HttpConnection;
using ::testing::Not;

class HttpServerTest : public ::testing::Test {
 protected:
  void Start(HttpOptions options = {}) {
    options.listen = "127.0.0.1:0";
    const auto echo = [](const HttpRequest& request, HttpResponse& response) {
      const auto found = request.query.find("x");
      response.Send(200, "text/plain",
                    request.body + (found == request.query.end() ? "" : found->second));
    };
    const auto count = [this](const HttpRequest&, HttpResponse& response) {
      response.Begin(200, "text/plain");
      for (int i = 0; i < 3; ++i) EXPECT_TRUE(response.Write(std::to_string(i)));
      ++counted_;
    };
    // Streams until the client is gone.
    const auto endless = [this](const HttpRequest&, HttpResponse& response) {
      response.Begin(200, "text/plain");
      while (response.Write(std::string(1 << 16, 'x'))) absl::SleepFor(absl::Milliseconds(1));
      ++ended_streams_;
    };
    const auto silent = [](const HttpRequest&, HttpResponse&) {};
    const auto throws = [](const HttpRequest& request, HttpResponse& response) {
      if (request.query.count("late") > 0) {
        response.Begin(200, "text/plain");
        EXPECT_TRUE(response.Write("part"));
      }
      if (request.query.count("number") > 0) throw 1;
      throw std::runtime_error("a bug");
    };
    const auto answers_twice = [](const HttpRequest&, HttpResponse& response) {
      response.Begin(200, "text/plain");
      EXPECT_TRUE(response.Write("part"));
      response.Send(500, "text/plain", "an error");
    };
    // Writes nothing until the client is gone.
    const auto waits = [this](const HttpRequest&, HttpResponse& response) {
      response.Begin(200, "text/plain");
      while (response.connected()) absl::SleepFor(absl::Milliseconds(1));
      EXPECT_FALSE(response.connected());
      ++ended_streams_;
    };
    const auto mirror = [](const HttpRequest& request, HttpResponse& response) {
      response.AddHeader("X-Mirror", request.headers.at("x-value"));
      response.Send(200, "text/plain", "");
    };
    auto server = HttpServer::Start(options, {{"GET", "/echo", echo},
                                              {"POST", "/echo", echo, Right::kInspect, kBodyBytes},
                                              {"GET", "/mirror", mirror},
                                              {"GET", "/count", count},
                                              {"GET", "/endless", endless},
                                              {"GET", "/silent", silent},
                                              {"GET", "/throws", throws},
                                              {"GET", "/answers_twice", answers_twice},
                                              {"GET", "/waits", waits}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  static constexpr size_t kBodyBytes = 100;

  int port() const { return server_->port(); }
  static bool Await(const std::atomic<int>& counter, int value) {
    for (int i = 0; i < 2000 && counter < value; ++i) absl::SleepFor(absl::Milliseconds(10));
    return counter >= value;
  }

  std::atomic<int> counted_{0}, ended_streams_{0};
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, RequestsReachTheirHandlers) {
  Start();
  const HttpAnswer get = Fetch(port(), "/echo?x=a%20b");
  EXPECT_EQ(get.status, 200);
  EXPECT_EQ(get.body, "a b");
  EXPECT_THAT(get.head, HasSubstr("Content-Security-Policy: default-src 'none'"));
  EXPECT_EQ(Fetch(port(), "/echo", "", "POST", "body").body, "body");
  EXPECT_EQ(Fetch(port(), "/none").status, 404);
  EXPECT_EQ(Fetch(port(), "/count", "", "POST", "x").status, 405);
  EXPECT_EQ(Fetch(port(), "/silent").status, 500);
}

TEST_F(HttpServerTest, BrowsersKeepOtherSitesOutOfResponses) {
  Start();
  const HttpAnswer answer = Fetch(port(), "/echo");
  EXPECT_THAT(answer.head, HasSubstr("frame-ancestors 'none'"));
  EXPECT_THAT(answer.head, Not(HasSubstr("unsafe-inline")));
  EXPECT_THAT(answer.head, HasSubstr("X-Content-Type-Options: nosniff"));
  EXPECT_THAT(answer.head, HasSubstr("Cross-Origin-Resource-Policy: same-origin"));
  EXPECT_THAT(answer.head, HasSubstr("Referrer-Policy: no-referrer"));
}

TEST_F(HttpServerTest, AHandlerThatThrowsFailsOnlyItsRequest) {
  Start();
  const HttpAnswer failed = Fetch(port(), "/throws");
  EXPECT_EQ(failed.status, 500);
  EXPECT_THAT(failed.body, Not(HasSubstr("a bug")));
  EXPECT_EQ(Fetch(port(), "/throws?number=1").status, 500);
  EXPECT_EQ(Fetch(port(), "/echo?x=works").body, "works");
}

TEST_F(HttpServerTest, AStreamWhoseHandlerThrowsIsIncomplete) {
  Start();
  const HttpAnswer answer = Fetch(port(), "/throws?late=1");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "4\r\npart\r\n");
}

TEST_F(HttpServerTest, AResponseIsNotWrittenIntoAStream) {
  Start();
  const HttpAnswer answer = Fetch(port(), "/answers_twice");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "4\r\npart\r\n") << "the stream must be incomplete";
}

TEST_F(HttpServerTest, HeadHasNoBody) {
  Start();
  const HttpAnswer head = Fetch(port(), "/echo?x=abc", "", "HEAD");
  EXPECT_EQ(head.status, 200);
  EXPECT_THAT(head.head, HasSubstr("Content-Length: 3"));
  EXPECT_EQ(head.body, "");
}

TEST_F(HttpServerTest, AStreamIsSentInChunks) {
  Start();
  const HttpAnswer answer = Fetch(port(), "/count");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, "1\r\n0\r\n1\r\n1\r\n1\r\n2\r\n0\r\n\r\n");
}

TEST_F(HttpServerTest, AConnectionServesSeveralRequests) {
  Start();
  HttpConnection connection(port());
  for (int i = 0; i < 3; ++i) {
    connection.Send("GET /echo?x=again HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(connection.Receive(), HasSubstr("again"));
  }
}

TEST_F(HttpServerTest, OtherHostsAndOriginsAreRefused) {
  Start();
  EXPECT_EQ(Fetch(port(), "/echo", "Host: evil.example\r\n").status, 421);
  EXPECT_EQ(Fetch(port(), "/echo", "Host: localhost\r\nOrigin: http://evil.example\r\n").status,
            403);
  EXPECT_EQ(Fetch(port(), "/echo", "Host: localhost\r\nOrigin: http://localhost\r\n").status, 200);
}

TEST_F(HttpServerTest, RequestsThatAreTooLargeOrNotHttpAreRefused) {
  Start({.max_header_bytes = 1000});
  EXPECT_EQ(Fetch(port(), "/echo", "X: " + std::string(2000, 'x') + "\r\n").status, 431);
  EXPECT_EQ(Fetch(port(), "/echo", "", "POST", std::string(kBodyBytes, 'x')).status, 200);
  EXPECT_EQ(Fetch(port(), "/echo", "", "POST", std::string(kBodyBytes + 1, 'x')).status, 413);
  HttpConnection garbage(port());
  garbage.Send(std::string("\0\1garbage\r\n\r\n", 13));
  EXPECT_THAT(garbage.ReceiveAll(), HasSubstr("400 Bad Request"));
  EXPECT_EQ(Fetch(port(), "/%zz").status, 400);
  EXPECT_EQ(Fetch(port(), "/echo").status, 200);
}

TEST_F(HttpServerTest, ABodyWithoutALengthIsLimitedToo) {
  Start();
  const auto post = [&](size_t bytes) {
    HttpConnection connection(port());
    connection.Send(absl::StrCat("POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
                                 "Transfer-Encoding: chunked\r\n\r\n", absl::Hex(bytes), "\r\n",
                                 std::string(bytes, 'x'), "\r\n0\r\n\r\n"));
    return connection.ReceiveAll();
  };
  EXPECT_THAT(post(kBodyBytes), HasSubstr("200 OK"));
  EXPECT_THAT(post(kBodyBytes + 1), HasSubstr("413 Payload Too Large"));
}

TEST_F(HttpServerTest, ExtensionsAndTrailersOfABodyAreLimited) {
  Start();
  const auto post = [&](const std::string& body) {
    HttpConnection connection(port());
    connection.Send(absl::StrCat("POST /echo HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n",
                                 "Transfer-Encoding: chunked\r\n\r\n", body));
    return connection.ReceiveAll();
  };
  const std::string endless(1 << 20, 'a');
  EXPECT_THAT(post(absl::StrCat("1;", endless)), HasSubstr("400 Bad Request"));
  EXPECT_THAT(post(absl::StrCat("1\r\nx\r\n0\r\na: ", endless)), HasSubstr("400 Bad Request"));
  EXPECT_THAT(post("1;a=b\r\nx\r\n0\r\na: b\r\n\r\n"), HasSubstr("200 OK"));
}

TEST_F(HttpServerTest, AnotherTransferEncodingIsRefused) {
  Start();
  for (const char* encoding : {"gzip", "chunked, identity", "identity"}) {
    HttpConnection connection(port());
    connection.Send(absl::StrCat("POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: ",
                                 encoding, "\r\n\r\nGET / HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    const std::string response = connection.ReceiveAll();
    EXPECT_THAT(response, HasSubstr("400 Bad Request")) << encoding;
    EXPECT_EQ(response.find("HTTP/1.1", 1), std::string::npos) << "the body was read as a request";
  }
}

TEST_F(HttpServerTest, ARequestIsRefusedBeforeItsBodyIsRead) {
  Start();
  for (const char* head : {"POST /none HTTP/1.1\r\nHost: localhost\r\n",
                           "POST /echo HTTP/1.1\r\nHost: evil.example\r\n",
                           "POST /echo HTTP/1.1\r\nHost: localhost\r\n"}) {
    HttpConnection connection(port());
    connection.Send(absl::StrCat(head, "Content-Length: 1000000\r\n\r\n"));
    EXPECT_THAT(connection.Receive(), HasSubstr("HTTP/1.1 4")) << head;
  }
}

TEST_F(HttpServerTest, AClientThatSendsItsBodyMeanwhileReadsTheRefusal) {
  Start();
  HttpConnection connection(port());
  connection.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 300000\r\n\r\n");
  for (int i = 0; i < 3; ++i) connection.Send(std::string(100000, 'x'));
  EXPECT_THAT(connection.ReceiveAll(), HasSubstr("413 Payload Too Large"));
}

TEST_F(HttpServerTest, AClientThatWaitsForPermissionSendsItsBody) {
  Start();
  HttpConnection connection(port());
  connection.Send(
      "POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nExpect: "
      "100-continue\r\n\r\n");
  EXPECT_EQ(connection.Receive(), "HTTP/1.1 100 Continue\r\n\r\n");
  connection.Send("body");
  EXPECT_THAT(connection.Receive(), HasSubstr("body"));
}

TEST_F(HttpServerTest, HeadersReachTheHandlerAndTheClient) {
  Start();
  const HttpAnswer answer = Fetch(port(), "/mirror", "X-VALUE: some text\r\n");
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("X-Mirror: some text"));
}

TEST_F(HttpServerTest, ErrorsOfTheServerHaveTheFormOfTheirPath) {
  Start({.errors = {.prefix = "/api/", .type = "application/json", .body = [](int status, auto) {
                      return absl::StrCat(status);
                    }}});
  const HttpAnswer formatted = Fetch(port(), "/api/none");
  EXPECT_EQ(formatted.status, 404);
  EXPECT_THAT(formatted.head, HasSubstr("application/json"));
  EXPECT_EQ(formatted.body, "404");
  EXPECT_EQ(Fetch(port(), "/api/none", "Transfer-Encoding: gzip\r\n", "POST").body, "400");
  EXPECT_EQ(Fetch(port(), "/none").body, "there is no /none\n");
}

TEST_F(HttpServerTest, AClientThatSendsAHeaderSlowlyLosesItsConnection) {
  Start({.timeouts = {.header = absl::Milliseconds(100), .body = absl::Hours(1)}});
  HttpConnection slow(port());
  slow.Send("GET /echo HTTP/1.1\r\n");
  EXPECT_EQ(slow.ReceiveAll(), "");
}

TEST_F(HttpServerTest, AClientThatSendsABodySlowlyLosesItsConnection) {
  Start({.timeouts = {.body = absl::Milliseconds(100)}});
  HttpConnection slow(port());
  slow.Send("POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbo");
  EXPECT_EQ(slow.ReceiveAll(), "");
}

TEST_F(HttpServerTest, AnIdleConnectionIsClosedAfterTheIdleTimeout) {
  Start({.timeouts = {.header = absl::Hours(1), .idle = absl::Milliseconds(100)}});
  HttpConnection idle(port());
  idle.Send("GET /echo?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(idle.ReceiveAll(), HasSubstr("200 OK"));  // Returns because the server closes it.
}

// Proxies keep idle connections for up to 90 s.
TEST_F(HttpServerTest, AnIdleConnectionOutlivesThoseOfProxies) {
  EXPECT_GE(HttpTimeouts().idle, absl::Seconds(120));
  Start({.timeouts = {.body = absl::Milliseconds(50)}});
  HttpConnection idle(port());
  for (int i = 0; i < 2; ++i) {
    idle.Send("GET /echo?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(idle.Receive(), HasSubstr("200 OK"));
    absl::SleepFor(absl::Milliseconds(200));
  }
  EXPECT_TRUE(idle.IsOpen());
}

TEST_F(HttpServerTest, AClientThatDoesNotReadEndsItsStream) {
  Start({.timeouts = {.write = absl::Milliseconds(200)}});
  HttpConnection connection(port());
  connection.Send("GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_TRUE(Await(ended_streams_, 1));
}

TEST_F(HttpServerTest, AClientThatDisconnectsEndsItsStream) {
  Start();
  {
    HttpConnection connection(port());
    connection.Send("GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(connection.Receive(), HasSubstr("200 OK"));
  }
  EXPECT_TRUE(Await(ended_streams_, 1));
}

TEST_F(HttpServerTest, AHandlerThatWritesNothingNoticesADisconnect) {
  Start();
  {
    HttpConnection connection(port());
    connection.Send("GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_THAT(connection.Receive(), HasSubstr("200 OK"));
    EXPECT_EQ(ended_streams_, 0);
  }
  EXPECT_TRUE(Await(ended_streams_, 1));
}

TEST_F(HttpServerTest, StoppingEndsHandlersThatWriteNothing) {
  Start();
  HttpConnection connection(port());
  connection.Send("GET /waits HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(connection.Receive(), HasSubstr("200 OK"));
  server_.reset();
  EXPECT_EQ(ended_streams_, 1);
}

TEST_F(HttpServerTest, StoppingEndsStreamsAndIdleConnections) {
  Start();
  HttpConnection idle(port()), stream(port());
  stream.Send("GET /endless HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(stream.Receive(), HasSubstr("200 OK"));
  server_.reset();
  EXPECT_EQ(ended_streams_, 1);
}

TEST_F(HttpServerTest, ABadOrUsedAddressIsAnError) {
  Start();
  EXPECT_TRUE(absl::IsInvalidArgument(HttpServer::Start({.listen = "8080"}, {}).status()));
  const auto used =
      HttpServer::Start({.listen = "127.0.0.1:" + std::to_string(port())}, {}).status();
  EXPECT_TRUE(absl::IsUnavailable(used)) << used;
  EXPECT_THAT(std::string(used.message()), HasSubstr("cannot listen on 127.0.0.1"));
}

}  // namespace
}  // namespace bastion
