#include "common/wire/security.h"

#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "bastion/internal/v1/stages.grpc.pb.h"
#include "common/host/service_host.h"
#include "common/wire/protocol.h"
#include "gmock/gmock.h"
#include "grpc/health/v1/health.grpc.pb.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace bastion::wire {
namespace {

namespace proto = internal::v1;
using ::testing::HasSubstr;

// Answers GetInfo with the caller's name. Steps echoes.
class EchoService final : public proto::DrafterService::Service {
 public:
  std::shared_ptr<const Security> security = Security::None();

  grpc::Status GetInfo(grpc::ServerContext* context, const proto::GetInfoRequest*,
                       proto::DrafterInfo* reply) override {
    const auto caller = security->Authorize(*context, Right::kDraft);
    if (!caller.ok()) return ToGrpc(caller.status());
    reply->set_model(*caller);
    return grpc::Status::OK;
  }
  grpc::Status Steps(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<proto::DrafterReply, proto::DrafterRequest>* stream) override {
    proto::DrafterRequest request;
    proto::DrafterReply reply;
    while (stream->Read(&request)) {
      reply.set_step(request.step());
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }
};

class SecurityTest : public ::testing::Test {
 protected:
  // Writes the files of a certificate for `name`, and of the authority.
  TlsFiles Files(const std::string& name, const testing::TestAuthority& authority,
                 absl::Duration lifetime = absl::Hours(24)) {
    const testing::CertificateFiles files = authority.Issue(name, lifetime);
    folder_.Write(name + ".crt", files.certificate);
    folder_.Write(name + ".key", files.key);
    folder_.Write(name + ".ca", authority.certificate());
    return {.certificate = folder_.File(name + ".crt"),
            .key = folder_.File(name + ".key"),
            .authorities = folder_.File(name + ".ca")};
  }

  void Serve(SecurityOptions options, const std::string& address = "127.0.0.1:0") {
    auto security = Security::Make(options);
    ASSERT_TRUE(security.ok()) << security.status();
    service_.security = *security;
    HostOptions host;
    host.addresses = {address};
    host.security = *security;
    host.health_address = "127.0.0.1:0";
    auto started = ServiceHost::Start(host, {&service_});
    ASSERT_TRUE(started.ok()) << started.status();
    host_ = *std::move(started);
    address_ = host_->port() == 0 ? address : absl::StrCat("127.0.0.1:", host_->port());
  }

  // The caller's name, as the server sees it.
  absl::StatusOr<std::string> Call(const SecurityOptions& options) const {
    auto security = Security::Make(options);
    if (!security.ok()) return security.status();
    const auto stub = proto::DrafterService::NewStub(ConnectPeer(address_, **security));
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
    context.set_wait_for_ready(false);
    proto::DrafterInfo reply;
    const grpc::Status status = stub->GetInfo(&context, {}, &reply);
    if (!status.ok()) return FromGrpc(status);
    return reply.model();
  }

  testing::TempFolder folder_;
  testing::TestAuthority authority_;
  EchoService service_;
  std::unique_ptr<ServiceHost> host_;
  std::string address_;
};

TEST_F(SecurityTest, ATlsServerAnswersOnlyClientsThatTrustItOverTls) {
  Serve({.tls = Files("server", authority_)});
  EXPECT_TRUE(Call({.tls = {.authorities = folder_.File("server.ca")}}).ok());
  EXPECT_TRUE(absl::IsUnavailable(Call({}).status())) << "clear text";
  folder_.Write("other.ca", testing::TestAuthority().certificate());
  EXPECT_TRUE(
      absl::IsUnavailable(Call({.tls = {.authorities = folder_.File("other.ca")}}).status()));
}

TEST_F(SecurityTest, AnExpiredCertificateIsRefused) {
  Serve({.tls = Files("server", authority_, absl::Minutes(30))});
  EXPECT_TRUE(
      absl::IsUnavailable(Call({.tls = {.authorities = folder_.File("server.ca")}}).status()));
}

TEST_F(SecurityTest, MutualTlsNamesTheCallerByItsCertificate) {
  folder_.Write("access",
                "the-orchestrator certificate:orchestrator draft\n"
                "the-drafter certificate:drafter features\n");
  TlsFiles server = Files("server", authority_);
  server.require_client_certificate = true;
  Serve({.tls = server, .access_file = folder_.File("access")});
  const auto named = Call({.tls = Files("orchestrator", authority_)});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(*named, "the-orchestrator");
  EXPECT_TRUE(absl::IsPermissionDenied(Call({.tls = Files("drafter", authority_)}).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(Call({.tls = Files("stranger", authority_)}).status()));
  EXPECT_TRUE(absl::IsUnavailable(Call({.tls = {.authorities = server.authorities}}).status()))
      << "no certificate";
  // A certificate of another authority that names the orchestrator.
  const testing::TestAuthority forger;
  TlsFiles forged = Files("orchestrator", forger);
  forged.authorities = server.authorities;
  EXPECT_TRUE(absl::IsUnavailable(Call({.tls = forged}).status()));
}

TEST_F(SecurityTest, TokensWorkOverUnixSocketsAndChangeWithTheirFiles) {
  folder_.Write("access", "caller token:0123456789abcdef draft\n");
  folder_.Write("token", "0123456789abcdef\n");
  folder_.Write("wrong", "0123456789abcdeX");
  Serve({.access_file = folder_.File("access")}, "unix://" + folder_.File("s.sock"));
  EXPECT_EQ(Call({.token_file = folder_.File("token")}).value_or(""), "caller");
  EXPECT_TRUE(absl::IsUnauthenticated(Call({}).status()));
  EXPECT_TRUE(absl::IsUnauthenticated(Call({.token_file = folder_.File("wrong")}).status()));

  // A channel that stays open sends the new token.
  const auto security = Security::Make({.token_file = folder_.File("token")});
  const auto stub = proto::DrafterService::NewStub(ConnectPeer(address_, **security));
  const auto call = [&] {
    grpc::ClientContext context;
    proto::DrafterInfo reply;
    return stub->GetInfo(&context, {}, &reply).ok();
  };
  EXPECT_TRUE(call());
  folder_.Write("access", "caller token:fedcba9876543210 draft\n");
  const auto becomes = [&](bool allowed) {
    for (int i = 0; i < 50 && call() != allowed; ++i) absl::SleepFor(absl::Milliseconds(100));
    return call() == allowed;
  };
  EXPECT_TRUE(becomes(false));
  folder_.Write("token", "fedcba9876543210");
  EXPECT_TRUE(becomes(true));
}

TEST_F(SecurityTest, RenewedCertificatesAreServedWhileStreamsStayOpen) {
  Serve({.tls = Files("server", authority_)});
  const auto security = Security::Make({.tls = {.authorities = folder_.File("server.ca")}});
  const auto stub = proto::DrafterService::NewStub(ConnectPeer(address_, **security));
  grpc::ClientContext context;
  const auto stream = stub->Steps(&context);
  proto::DrafterRequest request;
  proto::DrafterReply reply;
  ASSERT_TRUE(stream->Write(request) && stream->Read(&reply));

  const testing::TestAuthority next;
  const testing::CertificateFiles files = next.Issue("server");
  folder_.Write("next.ca", next.certificate());
  folder_.Write("server.crt", files.certificate);
  folder_.Write("server.key", files.key);
  const SecurityOptions trusting = {.tls = {.authorities = folder_.File("next.ca")}};
  absl::Status status;
  for (int i = 0; i < 100; ++i) {
    status = Call(trusting).status();
    if (status.ok()) break;
    absl::SleepFor(absl::Milliseconds(100));
  }
  EXPECT_TRUE(status.ok()) << status;
  request.set_step(7);
  ASSERT_TRUE(stream->Write(request) && stream->Read(&reply));
  EXPECT_EQ(reply.step(), 7u);
  stream->WritesDone();
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(SecurityTest, HealthChecksNeedNoCertificateAndNothingElseIsServedThere) {
  Serve({.tls = Files("server", authority_)});
  const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", host_->health_port()),
                                           grpc::InsecureChannelCredentials());
  const auto check = [&] {
    grpc::ClientContext context;
    grpc::health::v1::HealthCheckResponse response;
    EXPECT_TRUE(grpc::health::v1::Health::NewStub(channel)->Check(&context, {}, &response).ok());
    return response.status();
  };
  EXPECT_EQ(check(), grpc::health::v1::HealthCheckResponse::NOT_SERVING);
  host_->SetServing(true);
  EXPECT_EQ(check(), grpc::health::v1::HealthCheckResponse::SERVING);
  grpc::ClientContext context;
  proto::DrafterInfo reply;
  EXPECT_EQ(proto::DrafterService::NewStub(channel)->GetInfo(&context, {}, &reply).error_code(),
            grpc::StatusCode::UNIMPLEMENTED);
}

TEST_F(SecurityTest, ClearTextIsServedBeyondThisHostOnlyOnRequest) {
  HostOptions host;
  host.addresses = {"0.0.0.0:0"};
  const auto refused = ServiceHost::Start(host, {&service_});
  EXPECT_TRUE(absl::IsFailedPrecondition(refused.status())) << refused.status();
  EXPECT_THAT(refused.status().message(), HasSubstr("--tls_cert"));
  host.security = *Security::Make({.allow_plaintext = true});
  EXPECT_TRUE(ServiceHost::Start(host, {&service_}).ok());
}

TEST_F(SecurityTest, APeerOnAnotherHostNeedsAuthorities) {
  const auto clear = *Security::Make({});
  for (const char* address : {"unix:///a/b", "127.0.0.1:1", "localhost:1"}) {
    EXPECT_TRUE(clear->CheckPeer(address).ok()) << address;
  }
  for (const char* address : {"verifier.internal:1", "unix-gpu1.internal:1"}) {
    const absl::Status refused = clear->CheckPeer(address);
    EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
    EXPECT_THAT(refused.message(), HasSubstr("--tls_ca"));
    EXPECT_TRUE((*Security::Make({.allow_plaintext = true}))->CheckPeer(address).ok());
    const TlsFiles client = Files("client", authority_);
    EXPECT_TRUE(
        (*Security::Make({.tls = {.authorities = client.authorities}}))->CheckPeer(address).ok());
  }
}

TEST(IsLocalAddressTest, OnlyLoopbackAndUnixSocketsAreLocal) {
  for (const char* address : {"unix:///a/b", "unix:b", "unix-abstract:c", "127.0.0.1:1",
                              "127.9.8.7:1", "localhost:1", "[::1]:1", "ipv4:127.0.0.1:5"}) {
    EXPECT_TRUE(IsLocalAddress(address)) << address;
  }
  for (const char* address : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "host:1", "localhost.evil:1",
                              "127.evil.example:1", "unix-host:1", "", "*:1"}) {
    EXPECT_FALSE(IsLocalAddress(address)) << address;
  }
}

TEST_F(SecurityTest, BadFilesAreNamed) {
  const TlsFiles server = Files("server", authority_), other = Files("other", authority_);
  const auto error = [](const SecurityOptions& options) {
    return std::string(Security::Make(options).status().message());
  };
  EXPECT_THAT(error({.tls = {.certificate = server.certificate}}), HasSubstr("--tls_key"));
  EXPECT_THAT(error({.tls = {.certificate = server.certificate, .key = other.key}}),
              HasSubstr(other.key));
  EXPECT_THAT(error({.tls = {.certificate = server.key, .key = server.key}}),
              HasSubstr(server.key));
  EXPECT_THAT(error({.tls = {.authorities = "/none"}}), HasSubstr("/none"));
  EXPECT_THAT(error({.tls = {.require_client_certificate = true}}), HasSubstr("--tls_ca"));
  folder_.Write("two", "a b");
  EXPECT_THAT(error({.token_file = folder_.File("two")}), HasSubstr("one token"));
  EXPECT_THAT(error({.access_file = "/none"}), HasSubstr("/none"));
}

}  // namespace
}  // namespace bastion::wire
