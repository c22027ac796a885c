// Records the acceptance of a drafter: an engine that passes on what another one drafts, and
// compares it with the text that follows. The profile is input for replayed acceptance
// (replayed_engine.h).
//
// Only for drafters that predict all positions from the root.
#ifndef BASTION_DRAFTER_SERVICE_REPLAY_ACCEPTANCE_RECORDER_H_
#define BASTION_DRAFTER_SERVICE_REPLAY_ACCEPTANCE_RECORDER_H_

#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "drafter_service/replay/acceptance_profile.h"
#include "drafter_service/replay/wrapped_engine.h"

namespace bastion::drafter {

class AcceptanceRecorder final : public WrappedEngine {
 public:
  // FAILED_PRECONDITION if the drafter expands nodes.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<AcceptanceRecorder>> Create(
      std::unique_ptr<DrafterEngine> engine);

  // The blocks of all sequences that are closed, without those near the end of a text: the target's
  // tokens are not known for all their positions.
  [[nodiscard]] const AcceptanceProfile& profile() const { return profile_; }

 private:
  struct Block {
    Position committed;
    Marginals marginals;
  };

  explicit AcceptanceRecorder(std::unique_ptr<DrafterEngine> engine)
      : WrappedEngine(std::move(engine)) {}

  void Drafted(const Frontier& frontier, const std::vector<TokenId>& tokens, Draft& draft) override;
  void Closing(SequenceId sequence, const std::vector<TokenId>& tokens) override;

  AcceptanceProfile profile_;
  absl::flat_hash_map<SequenceId, std::vector<Block>> blocks_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_REPLAY_ACCEPTANCE_RECORDER_H_
