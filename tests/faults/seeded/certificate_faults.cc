// Certificates that expire, or are renewed in time.
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "tests/faults/seeded/fault.h"

namespace bastion::testing {
namespace {

// How long the services may take to read changed files, and how long the short certificate is
// valid.
constexpr absl::Duration kReload = absl::Milliseconds(2500);
constexpr absl::Duration kLifetime = absl::Seconds(4);

// A service's certificate is replaced by one that expires. Then all connections have to be made
// again.
class Certificate final : public Fault {
 public:
  // `renewed`: in time, so that nothing fails.
  Certificate(Replica& replica, Service service, bool renewed)
      : Fault({.description = absl::StrCat("certificate of ", Name(service),
                                           renewed ? " renewed in time" : " expired"),
               .duration = absl::Seconds(2),
               // All connections are made again, so that the verifier is gone for a moment. Without
               // a valid certificate, the orchestrator does not reach it either.
               .may_fail = MayFail::kRefused,
               .health = Health::kEither}),
        replica_(replica),
        service_(service),
        renewed_(renewed) {}

  void Begin() override {
    replica_.Certify(service_, kLifetime);
    absl::SleepFor(kReload);
    if (renewed_) replica_.Certify(service_);
    // Time in which the short certificate expires, or the new one is read.
    absl::SleepFor(kLifetime - kReload + absl::Seconds(1));
    for (const Link link : kLinks) replica_.link(link).Reset();
  }
  void End() override {
    if (!renewed_) replica_.Certify(service_);
  }

 private:
  Replica& replica_;
  const Service service_;
  const bool renewed_;
};

std::unique_ptr<Fault> MakeCertificate(Replica& replica, Random& random) {
  const Service service = AnyService(random);
  return std::make_unique<Certificate>(replica, service, random() % 2 == 0);
}

}  // namespace

std::vector<FaultKind> CertificateFaults() {
  return {{.name = "certificate", .needs_network = true, .make = MakeCertificate}};
}

}  // namespace bastion::testing
