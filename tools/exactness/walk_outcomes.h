// WalkOutcomes: the possible outcomes of walks over one tree, as a table [rows, V]. Cell (n, y) is
// the walk whose last accepted node is n and that then chooses y, where no child of n has token y.
#ifndef BASTION_TOOLS_EXACTNESS_WALK_OUTCOMES_H_
#define BASTION_TOOLS_EXACTNESS_WALK_OUTCOMES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/stages/stage_data.h"

namespace bastion {

class WalkOutcomes {
 public:
  // REQUIRES: `tree` outlives this object.
  WalkOutcomes(const DraftTree* tree, int vocabulary) : tree_(tree), vocabulary_(vocabulary) {}

  [[nodiscard]] size_t cells() const {
    return static_cast<size_t>(tree_->rows()) * static_cast<size_t>(vocabulary_);
  }
  [[nodiscard]] size_t Cell(NodeIndex last, TokenId next) const {
    return static_cast<size_t>(last) * static_cast<size_t>(vocabulary_) + static_cast<size_t>(next);
  }

  // The cell of `acceptance`. DATA_LOSS if the accepted nodes do not form a path from the root, or
  // `next` is not in the vocabulary.
  [[nodiscard]] absl::StatusOr<size_t> CellOf(const Acceptance& acceptance) const;

  // The probability of each cell, given the distribution after each node. [rows][V]
  [[nodiscard]] std::vector<double> Probabilities(
      const std::vector<std::vector<double>>& distributions) const;

  // Entropy of a walk below the root, in nats: the sum over the nodes of the entropy of the choice
  // after the node, weighted by the probability that a walk reaches the node.
  [[nodiscard]] double EntropyBelowRoot(
      const std::vector<std::vector<double>>& distributions) const;

  // The cell of the walk in `cell`, cut off after its first `choices` choices. 0: all choices.
  [[nodiscard]] size_t TruncateWalk(size_t cell, int choices) const;

 private:
  // The probability that a walk reaches each node.
  [[nodiscard]] std::vector<double> ReachProbabilities(
      const std::vector<std::vector<double>>& distributions) const;

  const DraftTree* const tree_;
  const int vocabulary_;
};

}  // namespace bastion

#endif  // BASTION_TOOLS_EXACTNESS_WALK_OUTCOMES_H_
