// Faults of whole processes: killed, stopped, or with a clock that jumps.
#include <signal.h>

#include "absl/strings/str_cat.h"
#include "tests/faults/seeded/fault.h"

namespace bastion::testing {
namespace {

// kill -9. The service starts again at the end.
class Kill final : public Fault {
 public:
  Kill(Replica& replica, Service service, absl::Duration duration)
      : Fault({.description = absl::StrCat("kill -9 ", Name(service)),
               .duration = duration,
               .may_fail = LossOf(service),
               .health = HealthWithout(service)}),
        replica_(replica),
        service_(service) {}

  void Begin() override {
    replica_.process(service_).Signal(SIGKILL);
    replica_.process(service_).Wait();
  }
  void End() override { replica_.Start(service_); }

 private:
  Replica& replica_;
  const Service service_;
};

// SIGSTOP, then SIGCONT.
class Stop final : public Fault {
 public:
  Stop(Replica& replica, Service service, absl::Duration duration)
      : Fault({.description = absl::StrCat("SIGSTOP ", Name(service)),
               .duration = duration,
               // A stopped orchestrator refuses nothing: its clients wait.
               .may_fail = service == Service::kVerifier ? MayFail::kRefused : MayFail::kNone,
               .health = HealthWithout(service)}),
        process_(replica.process(service)) {}

  void Begin() override { process_.Signal(SIGSTOP); }
  void End() override { process_.Signal(SIGCONT); }

 private:
  const ServiceProcess& process_;
};

// The wall clocks of some or all services jump, and jump back at the end.
class ClockJump final : public Fault {
 public:
  ClockJump(Replica& replica, std::vector<Service> services, absl::Duration shift,
            absl::Duration duration)
      : Fault({.description = absl::StrCat("clock ", shift > absl::ZeroDuration() ? "+" : "",
                                           absl::FormatDuration(shift), " ",
                                           services.size() == 1 ? Name(services[0]) : "all"),
               .duration = duration}),
        replica_(replica),
        services_(std::move(services)),
        shift_(shift) {}

  void Begin() override { Set(shift_); }
  void End() override { Set(absl::ZeroDuration()); }

 private:
  void Set(absl::Duration shift) {
    for (const Service service : services_) replica_.clock(service).Set(shift);
  }

  Replica& replica_;
  const std::vector<Service> services_;
  const absl::Duration shift_;
};

FaultKind KillKind(Service service) {
  return {.name = "kill-" + Name(service), .make = [service](Replica& replica, Random& random) {
            return std::make_unique<Kill>(replica, service, Between(10, 2000, random));
          }};
}

std::unique_ptr<Fault> MakeStop(Replica& replica, Random& random) {
  return std::make_unique<Stop>(replica, AnyService(random), Between(50, 3000, random));
}

std::unique_ptr<Fault> MakeClockJump(Replica& replica, Random& random) {
  std::vector<Service> services(std::begin(kServices), std::end(kServices));
  if (random() % 2 == 0) services = {AnyService(random)};
  // Certificates stay valid: they began an hour ago and last for hours.
  const absl::Duration shift = (random() % 2 == 0 ? 1 : -1) * Between(1000, 3'000'000, random);
  return std::make_unique<ClockJump>(replica, services, shift, Between(500, 2000, random));
}

}  // namespace

std::vector<FaultKind> ProcessFaults() {
  return {KillKind(Service::kVerifier),
          KillKind(Service::kDrafter),
          KillKind(Service::kOrchestrator),
          {.name = "stop", .make = MakeStop},
          {.name = "clock", .make = MakeClockJump}};
}

MayFail LossOf(Service service) {
  switch (service) {
    case Service::kVerifier:
      return MayFail::kRefused;
    case Service::kDrafter:
      return MayFail::kNone;
    case Service::kOrchestrator:
      return MayFail::kUnavailable;
  }
  return MayFail::kNone;
}

Health HealthWithout(Service service) {
  switch (service) {
    case Service::kVerifier:
      return Health::kNotServing;
    case Service::kDrafter:
      return Health::kServing;
    case Service::kOrchestrator:
      return Health::kEither;  // No answer, or a late one.
  }
  return Health::kEither;
}

}  // namespace bastion::testing
