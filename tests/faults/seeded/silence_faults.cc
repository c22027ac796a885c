// Faults of services that run, but are not heard by another one.
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/faults/seeded/fault.h"
#include "tests/faults/seeded/shared_memory_damage.h"

namespace bastion::testing {
namespace {

// The streams over shared memory between two services take no messages to `owner`.
class DamagedStreams final : public Fault {
 public:
  DamagedStreams(Replica& replica, Service owner, Service peer, FaultTraits traits)
      : Fault(std::move(traits)), replica_(replica), owner_(owner), peer_(peer) {}

  void Begin() override {
    damage_.emplace(replica_.process(owner_).pid(), replica_.process(peer_).pid());
  }
  void End() override {
    hits_ = damage_->hits();
    damage_.reset();
  }
  [[nodiscard]] std::string effect() const override { return absl::StrCat(hits_, " hits"); }
  [[nodiscard]] std::vector<std::string> findings() const override {
    if (hits_ > 0) return {};
    return {"no stream over shared memory was found"};
  }

 private:
  Replica& replica_;
  const Service owner_, peer_;
  std::optional<SharedMemoryDamage> damage_;
  int hits_ = 0;
};

// The verifier answers a connection's calls, but no call of its engine.
std::unique_ptr<Fault> MakeSilent(Replica& replica, Random& random) {
  return std::make_unique<DamagedStreams>(replica, Service::kVerifier, Service::kOrchestrator,
                                          FaultTraits{.description = "silent verifier",
                                                      .duration = Between(10, 3000, random),
                                                      .may_fail = MayFail::kRefused,
                                                      .health = Health::kEither});
}

// The verifier can send the drafter no features, and nothing ends their stream.
std::unique_ptr<Fault> MakeStalledFeatures(Replica& replica, Random& random) {
  return std::make_unique<DamagedStreams>(
      replica, Service::kDrafter, Service::kVerifier,
      FaultTraits{.description = "stalled features", .duration = Between(10, 500, random)});
}

// The features stay away for so long that the drafter answers many calls without a draft.
class LostFeatures final : public Fault {
 public:
  LostFeatures(Replica& replica, absl::Duration duration)
      : Fault({.description = "empty drafts", .duration = duration}),
        link_(replica.link(Link::kDrafterToVerifier)) {}

  void Begin() override { link_.Set({.deaf = true}); }
  void End() override { link_.Set({}); }

 private:
  FaultyLink& link_;
};

std::unique_ptr<Fault> MakeEmptyDrafts(Replica& replica, Random& random) {
  const absl::Duration duration = Between(1000, 4000, random);
  if (replica.network()) return std::make_unique<LostFeatures>(replica, duration);
  return std::make_unique<DamagedStreams>(
      replica, Service::kDrafter, Service::kVerifier,
      FaultTraits{.description = "empty drafts", .duration = duration});
}

}  // namespace

std::vector<FaultKind> SilenceFaults() {
  return {{.name = "silent", .needs_shared_memory = true, .make = MakeSilent},
          {.name = "stalled-features", .needs_shared_memory = true, .make = MakeStalledFeatures},
          {.name = "empty-drafts", .make = MakeEmptyDrafts}};
}

}  // namespace bastion::testing
