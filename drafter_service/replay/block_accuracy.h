// Counts how often a drafter's most probable token is the target's, by block and by position in the
// block, and how well a rank head predicts ranks (SpecBlock, figure 5 and table 3): an engine that
// passes on what another one drafts, and compares it with the text that follows.
//
// A block is the marginals after one node. Block 0 follows the root, block 1 a node that block 0
// predicted, and so on. A position counts if the tokens before it are those of the text: the path
// to the block's node, and the first candidates of the positions before.
#ifndef BASTION_DRAFTER_SERVICE_REPLAY_BLOCK_ACCURACY_H_
#define BASTION_DRAFTER_SERVICE_REPLAY_BLOCK_ACCURACY_H_

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/stages/marginals.h"
#include "drafter_service/replay/wrapped_engine.h"

namespace bastion::drafter {

struct BlockAccuracy {
  struct Count {
    int64_t tried = 0;
    int64_t right = 0;

    friend bool operator==(const Count&, const Count&) = default;
  };

  std::vector<std::vector<Count>> blocks;  // [M][P]
  // Positions by the bucket of the target's token among the candidates, and by the bucket that the
  // rank head predicted. A token that is no candidate is in the last bucket.
  std::array<std::array<int64_t, kRankBuckets>, kRankBuckets> buckets = {};
};

class BlockAccuracyCounter final : public WrappedEngine {
 public:
  explicit BlockAccuracyCounter(std::unique_ptr<DrafterEngine> engine)
      : WrappedEngine(std::move(engine)) {}

  // The blocks of all sequences that are closed.
  [[nodiscard]] const BlockAccuracy& accuracy() const { return accuracy_; }

 private:
  struct Block {
    Position committed;
    std::vector<TokenId> path;  // From the root, which it excludes.
    int number;                 // From 0.
    Marginals marginals;
  };

  void Drafted(const Frontier& frontier, const std::vector<TokenId>& tokens, Draft& draft) override;
  void Closing(SequenceId sequence, const std::vector<TokenId>& tokens) override;
  // Counts the positions of `block` in the text `tokens`.
  void Count(const Block& block, const std::vector<TokenId>& tokens);

  BlockAccuracy accuracy_;
  absl::flat_hash_map<SequenceId, std::vector<Block>> blocks_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_REPLAY_BLOCK_ACCURACY_H_
