// HttpServer over TLS, and with an access list.
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/http/http_server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace bastion {
namespace {

namespace asio = boost::asio;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class HttpsTest : public ::testing::Test {
 protected:
  TlsFiles Files(const std::string& name, const testing::TestAuthority& authority) {
    const testing::CertificateFiles files = authority.Issue(name);
    folder_.Write(name + ".crt", files.certificate);
    folder_.Write(name + ".key", files.key);
    folder_.Write(name + ".ca", authority.certificate());
    return {.certificate = folder_.File(name + ".crt"),
            .key = folder_.File(name + ".key"),
            .authorities = folder_.File(name + ".ca")};
  }
  void Start(HttpOptions options) {
    options.listen = "127.0.0.1:0";
    const auto hello = [](const HttpRequest& request, HttpResponse& response) {
      response.Send(200, "text/plain", "hello " + request.caller);
    };
    auto server = HttpServer::Start(
        options, {{"GET", "/hello", hello}, {"POST", "/ask", hello, Right::kGenerate}});
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }

  // A session that a client keeps from one connection to the next.
  struct Session {
    std::unique_ptr<SSL_SESSION, decltype(&SSL_SESSION_free)> kept{nullptr, SSL_SESSION_free};
    bool resumed = false;  // By the last connection.
  };

  // The bytes of the answer; empty if there is none. `client`: its certificate and what it trusts.
  std::string Get(const TlsFiles& client, const std::string& headers = "",
                  Session* session = nullptr) const {
    asio::ssl::context context(asio::ssl::context::tls_client);
    context.load_verify_file(client.authorities);
    context.set_verify_mode(asio::ssl::verify_peer);
    if (client.serves_tls()) {
      context.use_certificate_chain_file(client.certificate);
      context.use_private_key_file(client.key, asio::ssl::context::pem);
    }
    asio::io_context io;
    asio::ssl::stream<asio::ip::tcp::socket> stream(io, context);
    boost::system::error_code error;
    stream.next_layer().connect(
        {asio::ip::make_address("127.0.0.1"), static_cast<uint16_t>(server_->port())});
    SSL* const ssl = stream.native_handle();
    if (session != nullptr && session->kept != nullptr) SSL_set_session(ssl, session->kept.get());
    error = stream.handshake(asio::ssl::stream_base::client, error);
    if (error.failed()) return "";
    if (session != nullptr) session->resumed = SSL_session_reused(ssl) == 1;
    asio::write(stream,
                asio::buffer(absl::StrCat("GET /hello HTTP/1.1\r\nHost: localhost\r\n", headers,
                                          "Connection: close\r\n\r\n")),
                error);
    std::string all;
    char buffer[4096];
    while (!error.failed()) {
      const size_t count = stream.read_some(asio::buffer(buffer), error);
      all.append(buffer, count);
      // The server sends the session before its answer. The connection's own session becomes
      // unusable when OpenSSL frees a connection whose end was not announced. A copy stays usable.
      if (session != nullptr) session->kept.reset(SSL_SESSION_dup(SSL_get0_session(ssl)));
    }
    return all;
  }

  testing::TempFolder folder_;
  testing::TestAuthority authority_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpsTest, AClientThatTrustsTheServerGetsThePage) {
  const TlsFiles files = Files("server", authority_);
  Start({.tls = files});
  EXPECT_THAT(Get({.authorities = files.authorities}), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(testing::Fetch(server_->port(), "/hello").status, 0) << "clear text";
}

TEST_F(HttpsTest, AClientThatSendsNothingDoesNotStopOthers) {
  const TlsFiles files = Files("server", authority_);
  Start({.tls = files, .timeouts = {.header = absl::Milliseconds(500)}});
  testing::HttpConnection silent(server_->port());
  EXPECT_THAT(Get({.authorities = files.authorities}), StartsWith("HTTP/1.1 200"));
  EXPECT_EQ(silent.ReceiveAll(), "");  // Closed after the timeout.
}

TEST_F(HttpsTest, ACertificateIsRequiredOnRequest) {
  TlsFiles files = Files("server", authority_);
  files.require_client_certificate = true;
  Start({.tls = files});
  EXPECT_EQ(Get({.authorities = files.authorities}), "");
  EXPECT_THAT(Get(Files("client", authority_)), StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpsTest, AClientWithACertificateResumesItsSession) {
  TlsFiles files = Files("server", authority_);
  files.require_client_certificate = true;
  Start({.tls = files});
  const TlsFiles client = Files("client", authority_);
  Session session;
  EXPECT_THAT(Get(client, "", &session), StartsWith("HTTP/1.1 200"));
  EXPECT_FALSE(session.resumed);
  EXPECT_THAT(Get(client, "", &session), StartsWith("HTTP/1.1 200"));
  EXPECT_TRUE(session.resumed);
}

TEST_F(HttpsTest, ARenewedCertificateIsServed) {
  Start({.tls = Files("server", authority_)});
  const testing::TestAuthority next;
  const TlsFiles renewed = Files("server", next);
  std::string answer;
  for (int i = 0; i < 50 && answer.empty(); ++i) {
    answer = Get({.authorities = renewed.authorities});
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpsTest, ClientsOfNewAuthoritiesAreAccepted) {
  TlsFiles server = Files("server", authority_);
  folder_.Write("clients.ca", authority_.certificate());
  const std::string authorities = server.authorities;
  server.authorities = folder_.File("clients.ca");
  server.require_client_certificate = true;
  Start({.tls = server});
  const testing::TestAuthority next;
  TlsFiles client = Files("client", next);
  client.authorities = authorities;  // The client's view of the server does not change.
  EXPECT_EQ(Get(client), "");
  folder_.Write("clients.ca", next.certificate());
  std::string answer;
  for (int i = 0; i < 50 && answer.empty(); ++i) {
    answer = Get(client);
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200"));
}

TEST_F(HttpsTest, TheAccessListAppliesToEveryRoute) {
  folder_.Write("access",
                "ops token:0123456789abcdef inspect\nclient certificate:client inspect\n");
  const auto access = *AccessList::Load(folder_.File("access"));
  Start({.access = access.get()});
  const int port = server_->port();
  const testing::HttpAnswer refused = testing::Fetch(port, "/hello");
  EXPECT_EQ(refused.status, 401);
  EXPECT_THAT(refused.head, HasSubstr("WWW-Authenticate: Basic"));
  const std::string token = "Authorization: Bearer 0123456789abcdef\r\n";
  EXPECT_EQ(testing::Fetch(port, "/hello", token).status, 200);
  EXPECT_EQ(testing::Fetch(port, "/ask", token, "POST", "x").status, 403);
  EXPECT_EQ(testing::Fetch(port, "/hello",
                           absl::StrCat("Authorization: Basic ",
                                        absl::Base64Escape("me:0123456789abcdef"), "\r\n"))
                .status,
            200);
}

TEST_F(HttpsTest, ACertificateProvesTheCallersName) {
  folder_.Write("access", "monitor certificate:client inspect\n");
  const auto access = *AccessList::Load(folder_.File("access"));
  const TlsFiles server = Files("server", authority_);
  Start({.tls = server, .access = access.get()});
  EXPECT_THAT(Get(Files("client", authority_)), HasSubstr("hello monitor"));
  EXPECT_THAT(Get(Files("stranger", authority_)), StartsWith("HTTP/1.1 401"));
  EXPECT_THAT(Get({.authorities = server.authorities}), StartsWith("HTTP/1.1 401"));
}

TEST_F(HttpsTest, ABadCertificateIsAnErrorAtTheStart) {
  TlsFiles files = Files("server", authority_);
  files.key = Files("other", authority_).key;
  const auto refused = HttpServer::Start({.listen = "127.0.0.1:0", .tls = files}, {});
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
}

}  // namespace
}  // namespace bastion
