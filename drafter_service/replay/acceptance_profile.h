// AcceptanceProfile: how often a drafter is right, and how sure it is, without its weights: blocks
// of a real drafter, or blocks drawn to have the acceptance that a paper reports.
//
// The file is a JSON object:
//
//   {"name": "dflash-qwen3-8b", "source": "…", "blocks": [{"top": [0.97, …], "ranks": [0, …]}, …]}
//
// Plain data.
#ifndef BASTION_DRAFTER_SERVICE_REPLAY_ACCEPTANCE_PROFILE_H_
#define BASTION_DRAFTER_SERVICE_REPLAY_ACCEPTANCE_PROFILE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/stages/marginals.h"

namespace bastion::drafter {

// What a drafter predicted after one root.
struct ProfiledBlock {
  static constexpr int kAbsent = -1;

  std::vector<float> top;  // [P] The probability of the first candidate.
  std::vector<int> ranks;  // [P] The rank of the target's token, from 0, or kAbsent.

  friend bool operator==(const ProfiledBlock&, const ProfiledBlock&) = default;
};

// The rank of `token` among the candidates of a position, from 0, or ProfiledBlock::kAbsent.
[[nodiscard]] int RankOf(TokenId token, const Marginals& marginals, int position);

struct AcceptanceProfile {
  std::string name;
  std::string source;  // Where the blocks come from.
  std::vector<ProfiledBlock> blocks;

  [[nodiscard]] int positions() const { return static_cast<int>(blocks.front().top.size()); }  // P

  // INVALID_ARGUMENT unless there are blocks, all have the same P >= 1, probabilities lie in
  // (0, 1), and ranks are at least kAbsent.
  [[nodiscard]] absl::Status Validate() const;

  // Returns a valid profile. Errors name the file and the block.
  [[nodiscard]] static absl::StatusOr<AcceptanceProfile> Read(const std::string& path);
  // UNAVAILABLE if the file cannot be written.
  [[nodiscard]] absl::Status Write(const std::string& path) const;

  friend bool operator==(const AcceptanceProfile&, const AcceptanceProfile&) = default;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_REPLAY_ACCEPTANCE_PROFILE_H_
