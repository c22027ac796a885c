// Replayed acceptance: an engine that spends the forwards of a real drafter and drafts with the
// acceptance of a profile. Targets with random weights have no drafter that predicts them, so this
// measures the speed that a drafter of a paper would bring on this machine.
//
// The target's next tokens come from texts that it wrote before. Each cycle draws a block of the
// profile. At each depth, the target's token gets its rank in the block, and other tokens get the
// other ranks. So the text stays that of the target, and the committed length that of the profile.
// Nothing is predicted at depths that the profile does not have.
#ifndef BASTION_DRAFTER_SERVICE_REPLAY_REPLAYED_ENGINE_H_
#define BASTION_DRAFTER_SERVICE_REPLAY_REPLAYED_ENGINE_H_

#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/stages/marginals.h"
#include "common/stages/stage_data.h"
#include "drafter_service/replay/acceptance_profile.h"
#include "drafter_service/replay/known_texts.h"
#include "drafter_service/replay/wrapped_engine.h"

namespace bastion::drafter {

class ReplayedEngine final : public WrappedEngine {
 public:
  // REQUIRES: `profile` is valid. `texts` outlives this object.
  ReplayedEngine(std::unique_ptr<DrafterEngine> engine, AcceptanceProfile profile,
                 const KnownTexts* texts);

 private:
  // The block of a sequence's cycle, which is the same in all rounds of drafting.
  struct Drawn {
    Position committed = -1;
    size_t block = 0;
  };

  void Drafted(const Frontier& frontier, const std::vector<TokenId>& tokens, Draft& draft) override;
  void Closing(SequenceId sequence, const std::vector<TokenId>& /*tokens*/) override {
    drawn_.erase(sequence);
  }
  // A block for each cycle: all blocks of the profile in a random order, then all again.
  [[nodiscard]] size_t BlockOf(const Frontier& frontier);

  const AcceptanceProfile profile_;
  const KnownTexts* const texts_;
  absl::flat_hash_map<SequenceId, Drawn> drawn_;
  std::vector<size_t> order_;  // The blocks in the order in which cycles draw them.
  size_t cycles_ = 0;
};

// One position of a draft.
struct ReplayedPosition {
  float top = 0;  // Each candidate has this share of the probability that those before it leave.
  int rank = ProfiledBlock::kAbsent;  // The rank of `truth`.
  TokenId truth = -1;                 // -1: not known.
  uint64_t seed = 0;                  // Chooses the other tokens.
};

// Appends the candidates of a position to `marginals`, which has the numbers of positions and
// candidates. REQUIRES: the vocabulary has more tokens than there are candidates.
void AppendReplayed(const ReplayedPosition& position, int vocabulary, Marginals& marginals);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_REPLAY_REPLAYED_ENGINE_H_
