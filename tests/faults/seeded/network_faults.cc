// Faults of the network between two services.
#include "absl/strings/str_cat.h"
#include "tests/faults/seeded/fault.h"

namespace bastion::testing {
namespace {

// What a broken link may break. Without its link to the verifier, the orchestrator refuses
// requests.
MayFail LossOf(Link link) {
  return link == Link::kOrchestratorToVerifier ? MayFail::kRefused : MayFail::kNone;
}

class LinkFault : public Fault {
 public:
  LinkFault(Replica& replica, Link link, FaultTraits traits, const LinkFaults& faults)
      : Fault(std::move(traits)), link_(replica.link(link)), faults_(faults) {}

  void Begin() override {
    hits_ = link_.hits();
    link_.Set(faults_);
  }
  void End() override { link_.Set({}); }
  [[nodiscard]] std::string effect() const override {
    return absl::StrCat(link_.hits() - hits_, " hits");
  }

 protected:
  FaultyLink& link_;

 private:
  const LinkFaults faults_;
  int hits_ = 0;  // Those of earlier faults.
};

// Nothing passes. At the end the bytes that waited arrive, or their connections are reset.
class Partition final : public LinkFault {
 public:
  Partition(Replica& replica, Link link, bool reset, absl::Duration duration)
      : LinkFault(
            replica, link,
            {.description = absl::StrCat("partition ", Name(link), reset ? ", reset" : ", healed"),
             .duration = duration,
             .may_fail = LossOf(link),
             .health =
                 link == Link::kOrchestratorToVerifier ? Health::kNotServing : Health::kServing},
            {.cut = true}),
        reset_(reset) {}

  void End() override {
    if (reset_) link_.Reset();
    LinkFault::End();
  }

 private:
  const bool reset_;
};

// Every byte arrives late, but the peer counts as alive.
std::unique_ptr<Fault> MakeDelay(Replica& replica, Random& random) {
  const Link link = AnyLink(random);
  const absl::Duration delay = Between(5, 150, random);
  return std::make_unique<LinkFault>(
      replica, link,
      FaultTraits{
          .description = absl::StrCat("delay ", absl::FormatDuration(delay), " ", Name(link)),
          .duration = Between(500, 2500, random)},
      LinkFaults{.delay = delay});
}

std::unique_ptr<Fault> MakePartition(Replica& replica, Random& random) {
  const Link link = AnyLink(random);
  const bool reset = random() % 2 == 0;
  return std::make_unique<Partition>(replica, link, reset, Between(50, 3500, random));
}

// Faults that break connections now and then: the peers connect again.
std::unique_ptr<Fault> MakeBroken(Replica& replica, Random& random, const char* name,
                                  const LinkFaults& faults) {
  const Link link = AnyLink(random);
  return std::make_unique<LinkFault>(
      replica, link,
      FaultTraits{
          .description = absl::StrCat(name, " ", Name(link)),
          .duration = Between(200, 1500, random),
          .may_fail = LossOf(link),
          .health = link == Link::kOrchestratorToVerifier ? Health::kEither : Health::kServing},
      faults);
}

// Lost packets: stalls of a retransmission.
std::unique_ptr<Fault> MakeLoss(Replica& replica, Random& random) {
  return MakeBroken(replica, random, "loss", {.loss = 0.05});
}

// Flipped bits. TLS notices them and ends the connection. Without TLS, nothing but TCP's checksum
// protects the messages; the services refuse to use such a network (docs/security.md).
std::unique_ptr<Fault> MakeCorruption(Replica& replica, Random& random) {
  return MakeBroken(replica, random, "corrupt", {.corruption = 0.1});
}

std::unique_ptr<Fault> MakeTruncation(Replica& replica, Random& random) {
  return MakeBroken(replica, random, "truncate", {.truncation = 0.1});
}

}  // namespace

std::vector<FaultKind> NetworkFaults() {
  return {{.name = "partition", .needs_network = true, .make = MakePartition},
          {.name = "delay", .needs_network = true, .make = MakeDelay},
          {.name = "loss", .needs_network = true, .make = MakeLoss},
          {.name = "corrupt", .needs_network = true, .make = MakeCorruption},
          {.name = "truncate", .needs_network = true, .make = MakeTruncation}};
}

}  // namespace bastion::testing
