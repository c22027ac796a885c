#include "tests/faults/seeded/replica.h"

#include <netinet/in.h>
#include <openssl/bio.h>
#include <openssl/ssl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/clock.h"

namespace bastion::testing {
namespace {

// TestAuthority::Issue counts lifetimes from an hour ago.
constexpr absl::Duration kIssuedBefore = absl::Hours(1);

// A TCP port that is free now. It is below the ports that the system gives to outgoing connections,
// so that no connection takes it while its service is dead.
int FreePort() {
  static int next = 20000 + getpid() % 10000;
  for (;; ++next) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(next));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const int result = ::bind(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address));
    ::close(socket);
    if (result == 0) return next++;
  }
}

// Mounts a small file system at `folder`. Only this thread, and the threads and processes that it
// starts from now on, see it, so it ends with them. False if the system does not allow it.
bool MountSmallDisk(const std::string& folder) {
  return unshare(CLONE_NEWNS) == 0 &&
         mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("tmpfs", folder.c_str(), "tmpfs", 0, "size=4m") == 0;
}

// Sends a GET over TLS if there is a context, and returns all that comes back.
std::string Get(int port, const std::string& path, SSL_CTX* context) {
  const std::string address = absl::StrCat("127.0.0.1:", port);
  BIO* bio = BIO_new_connect(address.c_str());
  if (context != nullptr) bio = BIO_push(BIO_new_ssl(context, /*client=*/1), bio);
  const std::string request =
      absl::StrCat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  std::string all;
  if (BIO_write(bio, request.data(), static_cast<int>(request.size())) > 0) {
    char buffer[4096];
    for (int count; (count = BIO_read(bio, buffer, sizeof(buffer))) > 0;) {
      all.append(buffer, static_cast<size_t>(count));
    }
  }
  BIO_free_all(bio);
  return all;
}

}  // namespace

std::string Name(Service service) {
  return std::array{"verifier", "drafter", "orchestrator"}[static_cast<size_t>(service)];
}

std::string Name(Link link) {
  return std::array{"orchestrator-verifier", "orchestrator-drafter",
                    "drafter-verifier"}[static_cast<size_t>(link)];
}

Replica::Replica(const ReplicaOptions& options) : options_(options), state_(folder_.File("state")) {
  std::filesystem::create_directory(state_);
  small_disk_ = MountSmallDisk(state_);
  folder_.Write("ca", authority_.certificate());
  for (auto* ports : {&ports_, &http_ports_, &link_ports_}) {
    for (int& port : *ports) port = FreePort();
  }
  health_port_ = FreePort();
  for (const Service service : kServices) {
    clocks_[Index(service)] =
        std::make_unique<ShiftedClock>(folder_.File(Name(service) + ".clock"));
    Certify(service);
  }
  for (const Link link : kLinks) {
    if (!options_.network) break;
    const int to =
        port(link == Link::kOrchestratorToDrafter ? Service::kDrafter : Service::kVerifier);
    const auto i = static_cast<size_t>(link);
    links_[i] = std::make_unique<FaultyLink>(link_ports_[i], to, options_.seed + i);
  }
  health_client_ = std::make_unique<GenerationClient>(
      options_.network ? absl::StrCat("127.0.0.1:", health_port_) : Address(Service::kOrchestrator),
      ConnectionOptions{});
  for (const Service service : kServices) Start(service);
}

Replica::~Replica() {
  for (const Service service : {Service::kOrchestrator, Service::kDrafter, Service::kVerifier}) {
    processes_[Index(service)].reset();
  }
  if (small_disk_) umount2(state_.c_str(), MNT_DETACH);
}

void Replica::Start(Service service) {
  const size_t i = Index(service);
  ++starts_[i];
  processes_[i] = std::make_unique<ServiceProcess>("bastion-" + Name(service), Flags(service),
                                                   state_ + "/" + Name(service) + ".log",
                                                   clocks_[i]->Environment());
}

std::vector<std::string> Replica::RestartEnded() {
  std::vector<std::string> ended;
  for (const Service service : kServices) {
    if (!process(service).HasEnded()) continue;
    const int status = process(service).Wait();
    ended.push_back(absl::StrCat(Name(service), " with status ", status));
    Start(service);
  }
  return ended;
}

void Replica::Certify(Service service, absl::Duration lifetime) const {
  const CertificateFiles files = authority_.Issue(Name(service), kIssuedBefore + lifetime);
  // Written beside, then renamed, so that a service never reads half of a file.
  for (const auto& [suffix, text] : {std::pair(".crt", &files.certificate), {".key", &files.key}}) {
    folder_.Write(Name(service) + suffix + ".new", *text);
  }
  for (const char* const suffix : {".crt", ".key"}) {
    const std::string file = folder_.File(Name(service) + suffix);
    std::filesystem::rename(file + ".new", file);
  }
}

std::string Replica::Address(Service service) const {
  return options_.network ? absl::StrCat("127.0.0.1:", port(service))
                          : "unix://" + folder_.File(Name(service) + ".sock");
}

std::string Replica::AddressOver(Link link) const {
  if (options_.network) {
    return absl::StrCat("127.0.0.1:", link_ports_[static_cast<size_t>(link)]);
  }
  return Address(link == Link::kOrchestratorToDrafter ? Service::kDrafter : Service::kVerifier);
}

std::vector<std::string> Replica::Flags(Service service) const {
  std::vector<std::string> flags = {
      "--listen=" + Address(service), "--target=" + options_.models + "/target",
      absl::StrCat("--http_listen=127.0.0.1:", http_ports_[Index(service)])};
  const auto add = [&](const auto&... flag) { (flags.push_back(flag), ...); };
  if (options_.network) {
    add("--tls_ca=" + folder_.File("ca"), "--tls_cert=" + folder_.File(Name(service) + ".crt"),
        "--tls_key=" + folder_.File(Name(service) + ".key"));
  }
  if (service == Service::kOrchestrator) {
    add("--verifier=" + AddressOver(Link::kOrchestratorToVerifier),
        "--drafter=" + AddressOver(Link::kOrchestratorToDrafter), "--profile_limit=0s",
        "--draft_timeout=500ms", "--learn_prior=" + state_ + "/prior",
        "--acceptance_calibration=" + state_ + "/acceptance",
        "--latency_profile=" + state_ + "/costs");
    if (options_.network) add(absl::StrCat("--health_listen=127.0.0.1:", health_port_));
    return flags;
  }
  add("--weights=fp32",
      options_.network ? "--tls_require_client_cert" : "--shared_memory=" + folder_.File("shm"));
  if (service == Service::kDrafter) {
    add("--drafter=" + options_.models + "/drafter",
        "--verifier=" + AddressOver(Link::kDrafterToVerifier));
  } else {
    add(absl::StrCat("--kv_tokens=", options_.kv_tokens));
  }
  return flags;
}

std::unique_ptr<GenerationClient> Replica::MakeClient() const {
  ConnectionOptions connection;
  if (options_.network) connection.tls_ca = folder_.File("ca");
  return std::make_unique<GenerationClient>(Address(Service::kOrchestrator), connection);
}

bool Replica::IsServing() { return health_client_->CheckHealth().ok(); }

bool Replica::AwaitServing(absl::Duration limit) {
  StopWatch watch;
  for (absl::Duration waited; waited < limit; waited += watch.Lap()) {
    if (IsServing()) return true;
    absl::SleepFor(absl::Milliseconds(10));
  }
  return false;
}

std::map<std::string, double> Replica::Metrics(Service service) const {
  SSL_CTX* context = nullptr;
  if (options_.network) {
    context = SSL_CTX_new(TLS_client_method());
    SSL_CTX_use_certificate_chain_file(context, folder_.File("drafter.crt").c_str());
    SSL_CTX_use_PrivateKey_file(context, folder_.File("drafter.key").c_str(), SSL_FILETYPE_PEM);
  }
  const std::string page = Get(http_ports_[Index(service)], "/metrics", context);
  SSL_CTX_free(context);
  std::map<std::string, double> samples;
  for (const absl::string_view line : absl::StrSplit(page, '\n')) {
    double value = 0;
    if (line.empty() || line[0] == '#' || line.rfind(' ') == line.npos ||
        !absl::SimpleAtod(line.substr(line.rfind(' ') + 1), &value)) {
      continue;
    }
    samples[std::string(line.substr(0, line.find_first_of("{ ")))] += value;
  }
  return samples;
}

std::string Replica::Log(Service service) const {
  std::ifstream file(state_ + "/" + Name(service) + ".log");
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace bastion::testing
