// Tests the three services as processes with mutual TLS over TCP, access lists and tokens.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fstream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "tests/integration/services_fixture.h"
#include "tests/support/temp_folder.h"
#include "tests/support/test_certificates.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kToken[] = "0123456789abcdef-secret";

// A TCP port that is free now.
int FreePort() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address));
  socklen_t size = sizeof(address);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

class SecureServicesTest : public ::testing::Test {
 protected:
  SecureServicesTest() {
    folder_.Write("ca", authority_.certificate());
    folder_.Write("token", kToken);
    folder_.Write("internal_access",
                  "orchestrator certificate:orchestrator draft,verify,inspect\n"
                  "drafter certificate:drafter features\n");
    folder_.Write("public_access", absl::StrCat("team-a token:", kToken, " generate\n"));
    const std::string verifier = absl::StrCat("127.0.0.1:", verifier_port_);
    verifier_ = Start("verifier", verifier_port_, "internal_access",
                      {"--target=" + kModels + "/target", "--tls_require_client_cert"});
    drafter_ = Start("drafter", drafter_port_, "internal_access",
                     {"--target=" + kModels + "/target", "--drafter=" + kModels + "/drafter",
                      "--verifier=" + verifier, "--tls_require_client_cert"});
    orchestrator_ =
        Start("orchestrator", port_, "public_access",
              {"--target=" + kModels + "/target", "--verifier=" + verifier,
               absl::StrCat("--drafter=127.0.0.1:", drafter_port_), "--profile_limit=0s",
               "--draft_timeout=10s", absl::StrCat("--health_listen=127.0.0.1:", health_port_)});
  }

  std::unique_ptr<testing::ServiceProcess> Start(const std::string& service, int port,
                                                 const std::string& access,
                                                 std::vector<std::string> flags) {
    const testing::CertificateFiles files = authority_.Issue(service);
    folder_.Write(service + ".crt", files.certificate);
    folder_.Write(service + ".key", files.key);
    for (const std::string& flag :
         {absl::StrCat("--listen=127.0.0.1:", port), "--tls_ca=" + folder_.File("ca"),
          "--tls_cert=" + folder_.File(service + ".crt"),
          "--tls_key=" + folder_.File(service + ".key"), "--access_file=" + folder_.File(access)}) {
      flags.push_back(flag);
    }
    return std::make_unique<testing::ServiceProcess>("bastion-" + service, std::move(flags),
                                                     folder_.File(service + ".log"));
  }

  std::string Log(const std::string& service) const {
    std::ifstream file(folder_.File(service + ".log"));
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Health is served in clear text on a port of its own.
  bool AwaitServing() const {
    for (int i = 0; i < 600; ++i) {
      if (GenerationClient(absl::StrCat("127.0.0.1:", health_port_), {}).CheckHealth().ok()) {
        return true;
      }
      absl::SleepFor(absl::Milliseconds(100));
    }
    return false;
  }
  GenerationClient Client(const std::string& token_file) const {
    return GenerationClient(absl::StrCat("127.0.0.1:", port_),
                            {.tls_ca = folder_.File("ca"), .token_file = token_file});
  }

  const int verifier_port_ = FreePort(), drafter_port_ = FreePort(), port_ = FreePort(),
            health_port_ = FreePort();
  testing::TempFolder folder_;
  testing::TestAuthority authority_;
  std::unique_ptr<testing::ServiceProcess> verifier_, drafter_, orchestrator_;
};

TEST_F(SecureServicesTest, OnlyCallersWithATokenGetAnswersAndTheTextIsThatOfPlainDecoding) {
  ASSERT_TRUE(AwaitServing()) << Log("orchestrator") << Log("verifier");
  GenerationClient client = Client(folder_.File("token"));
  const Answer plain = Generate(client, Request("ar", 32));
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  const Answer drafted = Generate(client, Request("fixed:8", 32));
  ASSERT_TRUE(drafted.status.ok()) << drafted.status << Log("drafter");
  EXPECT_EQ(drafted.tokens, plain.tokens);
  EXPECT_LT(drafted.cycles.size(), plain.cycles.size()) << "no features reached the drafter";

  GenerationClient anonymous = Client("");
  EXPECT_TRUE(absl::IsUnauthenticated(Generate(anonymous, Request("ar", 1)).status));
  EXPECT_TRUE(absl::IsUnauthenticated(anonymous.ListModels().status()));
  EXPECT_TRUE(absl::IsUnauthenticated(anonymous.GetServerInfo().status()));
  // The verifier refuses clients without a certificate.
  GenerationClient stranger(absl::StrCat("127.0.0.1:", verifier_port_),
                            {.tls_ca = folder_.File("ca")});
  EXPECT_TRUE(absl::IsUnavailable(stranger.CheckHealth()));

  for (const char* service : {"orchestrator", "drafter", "verifier"}) {
    EXPECT_THAT(Log(service), Not(HasSubstr(kToken))) << service;
    EXPECT_THAT(Log(service), Not(HasSubstr("import os"))) << service;
  }
}

}  // namespace
}  // namespace bastion
