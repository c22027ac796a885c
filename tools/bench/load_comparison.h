// Runs the same loads by several arms, in rounds. The arms take turns, and the order rotates, so
// that machine noise affects all of them equally.
#ifndef BASTION_TOOLS_BENCH_LOAD_COMPARISON_H_
#define BASTION_TOOLS_BENCH_LOAD_COMPARISON_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/arm.h"

namespace bastion {

using ArmFactory = std::function<absl::StatusOr<std::unique_ptr<Arm>>(const std::string& policy)>;

struct ComparisonOptions {
  std::vector<std::string> policies;
  int rounds = 1;
  // Forget at each round what the arms learned. Else each arm starts a level fresh and keeps what
  // it learns over all rounds of this level. Arms through services keep it in the services.
  bool cold = false;
  // Requests of the level that each new arm runs first. They do not count.
  int warmup = 0;
};

// Runs every plan by every policy, `rounds` times. At concurrency 1, the arms take turns after each
// request, because nothing happens between two requests of an arm; its clock stops meanwhile.
[[nodiscard]] absl::StatusOr<std::vector<LevelResults>> CompareLoads(
    const std::vector<LoadPlan>& plans, const ComparisonOptions& options,
    const BenchSettings& settings, const ArmFactory& make_arm);

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_LOAD_COMPARISON_H_
