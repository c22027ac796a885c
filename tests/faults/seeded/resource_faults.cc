// Services that run out of descriptors, disk space, memory or KV cache.
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "tests/faults/seeded/fault.h"
#include "tests/faults/seeded/process_usage.h"

namespace bastion::testing {
namespace {

// Sets a soft limit of another process.
void SetLimit(const ServiceProcess& process, __rlimit_resource resource, rlim_t value) {
  rlimit limit;
  CHECK_EQ(prlimit(process.pid(), resource, nullptr, &limit), 0);
  limit.rlim_cur = std::min(value, limit.rlim_max);
  CHECK_EQ(prlimit(process.pid(), resource, &limit, nullptr), 0);
}

// EMFILE: a service can open no further descriptor, while strangers try to connect.
class Descriptors final : public Fault {
 public:
  Descriptors(Replica& replica, Service service, absl::Duration duration)
      : Fault({.description = absl::StrCat("EMFILE ", Name(service)), .duration = duration}),
        process_(replica.process(service)),
        port_(replica.network() ? replica.port(service) : 0) {}
  ~Descriptors() override { Hangup(); }

  void Begin() override {
    SetLimit(process_, RLIMIT_NOFILE, static_cast<rlim_t>(ReadUsage(process_.pid()).descriptors));
    for (int i = 0; i < 8 && port_ > 0; ++i) Connect();
  }
  void End() override {
    Hangup();
    if (!process_.HasEnded()) SetLimit(process_, RLIMIT_NOFILE, kEnough);
  }

 private:
  static constexpr rlim_t kEnough = 1024;

  void Connect() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK_EQ(::connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    strangers_.push_back(socket);
  }
  void Hangup() {
    for (const int socket : strangers_) ::close(socket);
    strangers_.clear();
  }

  const ServiceProcess& process_;
  const int port_;
  std::vector<int> strangers_;
};

// ENOSPC: nothing can be written to the file system with the logs and with what the orchestrator
// learns. The orchestrator, which saves at its end, is ended in order and started again meanwhile.
class Disk final : public Fault {
 public:
  Disk(Replica& replica, bool restart, absl::Duration duration)
      : Fault({.description = absl::StrCat("ENOSPC", restart ? ", orchestrator restarted" : ""),
               .duration = duration,
               .may_fail = restart ? MayFail::kUnavailable : MayFail::kNone,
               .health = restart ? Health::kEither : Health::kServing}),
        replica_(replica),
        file_(replica.state_folder() + "/filler"),
        restart_(restart) {}

  void Begin() override {
    std::ofstream filler(file_, std::ios::binary);
    const std::string block(64 << 10, 'x');
    while (filler.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
    filler.close();
    if (!restart_) return;
    replica_.process(Service::kOrchestrator).Signal(SIGTERM);
    status_ = replica_.process(Service::kOrchestrator).Wait();
    replica_.Start(Service::kOrchestrator);
  }
  void End() override { std::filesystem::remove(file_); }
  [[nodiscard]] std::vector<std::string> findings() const override {
    if (status_ == 0) return {};
    return {absl::StrCat("the orchestrator ended with status ", status_)};
  }

 private:
  Replica& replica_;
  const std::string file_;
  const bool restart_;
  int status_ = 0;  // The exit status of the orchestrator.
};

// More requests than the KV cache holds: they take turns.
class KvCache final : public Fault {
 public:
  KvCache(Replica& replica, absl::Duration duration)
      : Fault({.description = "out of KV", .duration = duration}), replica_(replica) {}

  void Begin() override {
    for (int i = 0; i < kRequests; ++i) {
      threads_.emplace_back([this, i] {
        v1::GenerateRequest request;
        request.set_text("import os\n");
        request.mutable_sampling()->set_seed(i);
        request.mutable_stop()->set_max_tokens(kTokens);
        request.mutable_stop()->set_ignore_eos(true);
        const absl::Status status = replica_.MakeClient()->Generate(
            request, [&](const v1::GenerateResponse&) { return !ending_.load(); },
            {.retry = {.max_attempts = 1}});
        if (status.ok() || absl::IsCancelled(status)) return;
        MutexLock lock(&mutex_);
        findings_.push_back("a request failed: " + status.ToString());
      });
    }
  }
  void End() override {
    ending_.store(true);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }
  [[nodiscard]] std::vector<std::string> findings() const override {
    MutexLock lock(&mutex_);
    return findings_;
  }

 private:
  static constexpr int kRequests = 10, kTokens = 400;

  Replica& replica_;
  std::atomic<bool> ending_{false};
  mutable Mutex mutex_;
  std::vector<std::string> findings_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> threads_;
};

// ENOMEM: a service gets only a little more address space, and is asked for work that needs more.
class Memory final : public Fault {
 public:
  Memory(Replica& replica, Service service, int megabytes, absl::Duration duration)
      : Fault({.description = absl::StrCat("out of memory ", Name(service), " +", megabytes, " MB"),
               .duration = duration,
               .may_fail = service == Service::kOrchestrator ? MayFail::kNoMemory : LossOf(service),
               .health = service == Service::kDrafter ? Health::kServing : Health::kEither,
               // Libraries end the process if they get no memory. Its supervisor starts it again.
               .services_may_end = true}),
        replica_(replica),
        service_(service),
        start_(replica.starts(service)),
        bytes_(static_cast<rlim_t>(megabytes) << 20) {}

  void Begin() override {
    const pid_t process = replica_.process(service_).pid();
    virtual_bytes_ = ReadUsage(process).virtual_bytes;
    SetLimit(replica_.process(service_), RLIMIT_AS, static_cast<rlim_t>(virtual_bytes_) + bytes_);
    // A long prompt needs memory in all services.
    client_ = std::thread([this] {
      v1::GenerateRequest request;
      for (int i = 0; i < 1500; ++i) request.mutable_tokens()->add_ids(1 + (i * 7) % 90);
      request.mutable_stop()->set_max_tokens(2);
      // It may fail.
      (void)replica_.MakeClient()->Generate(
          request, [](const v1::GenerateResponse&) { return true; },
          {.timeout = absl::Seconds(20), .retry = {.max_attempts = 1}});
    });
  }
  void End() override {
    const ServiceProcess& process = replica_.process(service_);
    // A service that was started again has no limit.
    if (replica_.starts(service_) == start_ && !process.HasEnded()) {
      used_bytes_ = ReadUsage(process.pid()).virtual_bytes - virtual_bytes_;
      SetLimit(process, RLIMIT_AS, RLIM_INFINITY);
    }
    client_.join();
  }
  [[nodiscard]] std::string effect() const override {
    return absl::StrCat(used_bytes_ >> 10, " of ", bytes_ >> 10, " KB used");
  }

 private:
  Replica& replica_;
  const Service service_;
  const int start_;
  const rlim_t bytes_;
  int64_t virtual_bytes_ = 0;  // At the beginning.
  int64_t used_bytes_ = 0;     // How much of bytes_ was taken.
  std::thread client_;
};

std::unique_ptr<Fault> MakeDescriptors(Replica& replica, Random& random) {
  return std::make_unique<Descriptors>(replica, AnyService(random), Between(200, 2000, random));
}

std::unique_ptr<Fault> MakeDisk(Replica& replica, Random& random) {
  const bool restart = random() % 2 == 0;
  return std::make_unique<Disk>(replica, restart, Between(200, 1500, random));
}

std::unique_ptr<Fault> MakeKvCache(Replica& replica, Random& random) {
  return std::make_unique<KvCache>(replica, Between(500, 3000, random));
}

std::unique_ptr<Fault> MakeMemory(Replica& replica, Random& random) {
  const Service service = AnyService(random);
  const int megabytes = static_cast<int>(random() % 4);
  return std::make_unique<Memory>(replica, service, megabytes, Between(300, 1500, random));
}

}  // namespace

std::vector<FaultKind> ResourceFaults() {
  return {{.name = "descriptors", .make = MakeDescriptors},
          {.name = "disk", .needs_small_disk = true, .make = MakeDisk},
          {.name = "kv", .make = MakeKvCache},
          {.name = "memory", .make = MakeMemory}};
}

}  // namespace bastion::testing
