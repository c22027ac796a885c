// Injects seeded faults into the three services under load; see --help.
#include <algorithm>
#include <iostream>
#include <iterator>

#include "absl/flags/flag.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "tests/faults/seeded/campaign.h"

ABSL_FLAG(uint64_t, seed, 1, "Decides which faults are injected, and when.");
ABSL_FLAG(int, faults, 20, "Number of faults.");
ABSL_FLAG(std::string, kinds, "",
          "Kinds of faults, separated by commas. They take turns. Empty: all.");
ABSL_FLAG(
    bool, network, true,
    "Connect the services by TCP with mutual TLS, over links that can fail. Otherwise they use "
    "unix sockets and shared memory, which can be damaged, and there are no faults of links and "
    "certificates.");
ABSL_FLAG(int, clients, 4, "Number of clients that send requests all the time.");
ABSL_FLAG(int, drain_every, 1,
          "Number of faults after which the clients pause, so that leaks can be seen.");

namespace bastion::testing {
namespace {

// The kinds of --kinds that can be injected into `replica`, or what is wrong with it.
absl::StatusOr<std::vector<FaultKind>> SelectKinds(const std::string& names,
                                                   const Replica& replica) {
  const std::vector<FaultKind> kinds = UsableKinds(replica);
  if (names.empty()) return kinds;
  std::vector<FaultKind> selected;
  for (const absl::string_view name : absl::StrSplit(names, ',')) {
    const auto found = std::find_if(kinds.begin(), kinds.end(),
                                    [&](const FaultKind& kind) { return kind.name == name; });
    if (found == kinds.end()) {
      const auto append = [](std::string* out, const FaultKind& kind) { out->append(kind.name); };
      return absl::InvalidArgumentError(absl::StrCat(
          "--kinds has \"", name, "\"; possible here are ", absl::StrJoin(kinds, ", ", append)));
    }
    selected.push_back(*found);
  }
  return selected;
}

absl::Status Run(const std::vector<char*>& /*arguments*/) {
  const uint64_t seed = absl::GetFlag(FLAGS_seed);
  Replica replica({.models = std::string(BASTION_SOURCE_DIR) + "/deploy/demo_model",
                   .network = absl::GetFlag(FLAGS_network),
                   .seed = seed});
  ASSIGN_OR_RETURN(const std::vector<FaultKind> kinds,
                   SelectKinds(absl::GetFlag(FLAGS_kinds), replica));
  if (!replica.has_small_disk()) std::cout << "no faults of the disk: mounting is not allowed\n";
  Campaign campaign(replica,
                    {.seed = seed,
                     .clients = absl::GetFlag(FLAGS_clients),
                     .drain_every = absl::GetFlag(FLAGS_drain_every)},
                    std::cout);
  if (!campaign.Prepare()) return absl::InternalError("the services do not work without faults");
  const int faults = absl::GetFlag(FLAGS_faults);
  for (int i = 0; i < faults; ++i) campaign.Run(kinds[static_cast<size_t>(i) % kinds.size()]);
  campaign.Drain();
  std::cout << campaign.Table();
  if (campaign.passed()) return absl::OkStatus();
  for (const Service service : kServices) {
    std::cerr << "---- " << Name(service) << "\n" << replica.Log(service);
  }
  return absl::InternalError(absl::StrCat("faults failed; repeat them with --seed ", seed));
}

}  // namespace
}  // namespace bastion::testing

int main(int argc, char** argv) {
  return bastion::RunProgram(
      argc, argv,
      {.summary = "Injects faults into the three services under load, and checks what comes of it.",
       .usage = "[flags]",
       .example = "--seed 7 --faults 30 --kinds kill-verifier,partition"},
      bastion::testing::Run);
}
