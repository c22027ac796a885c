// SuiteSessions: the sessions of a suite, one for each drafter that its policies name. Each has a
// target of its own, because a target keeps features for one drafter. Thread-compatible.
#ifndef BASTION_TOOLS_BENCH_SUITE_SESSIONS_H_
#define BASTION_TOOLS_BENCH_SUITE_SESSIONS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "drafter_service/replay/block_accuracy.h"
#include "tools/bench/bench_session.h"
#include "tools/bench/load_plan.h"
#include "tools/bench/suite.h"

namespace bastion {

// The accuracy of a drafter over all texts of a suite, with warm-up.
struct DrafterAccuracy {
  std::string drafter;  // Its name in SuiteModels::drafters. Empty: the suite's own.
  drafter::BlockAccuracy accuracy;
};

// Removes the policies whose further drafter has no folder. Returns a sentence for each of them.
[[nodiscard]] std::vector<std::string> LeaveOutAbsentDrafters(Suite* suite);

class SuiteSessions {
 public:
  // `options`: without folders. INVALID_ARGUMENT if an endpoint would have to serve several
  // drafters; the errors of BenchSession::Open.
  [[nodiscard]] static absl::StatusOr<SuiteSessions> Open(const Suite& suite,
                                                          const SessionOptions& options);

  // That of the suite's own drafter.
  [[nodiscard]] BenchSession& own() { return *sessions_.at(""); }
  // Makes an arm for a policy of the suite. It must not outlive this object.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Arm>> MakeArm(const std::string& policy);
  // Learns the texts of these plans if acceptance is replayed (text_files.h).
  [[nodiscard]] absl::Status Learn(const std::vector<LoadPlan>& plans,
                                   const BenchSettings& settings);
  // Empty unless LocalOptions::counts_accuracy.
  [[nodiscard]] std::vector<DrafterAccuracy> accuracies() const;
  // Closes all sessions. Call it when all arms are gone.
  [[nodiscard]] absl::Status Close();

 private:
  std::map<std::string, std::unique_ptr<BenchSession>> sessions_;  // By the drafter's name.
};

}  // namespace bastion

#endif  // BASTION_TOOLS_BENCH_SUITE_SESSIONS_H_
