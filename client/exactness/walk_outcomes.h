// The outcomes of walks over one tree, as a table [rows, V]: cell (n, y) is the walk whose last
// accepted node is n and that then chose y, which is no child of n.
#ifndef BASTION_CLIENT_EXACTNESS_WALK_OUTCOMES_H_
#define BASTION_CLIENT_EXACTNESS_WALK_OUTCOMES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/stages/stage_data.h"

namespace bastion {

class WalkOutcomes {
 public:
  // `tree` must outlive this.
  WalkOutcomes(const DraftTree* tree, int vocabulary) : tree_(tree), vocabulary_(vocabulary) {}

  [[nodiscard]] size_t cells() const {
    return static_cast<size_t>(tree_->rows()) * static_cast<size_t>(vocabulary_);
  }
  [[nodiscard]] size_t Cell(NodeIndex last, TokenId next) const {
    return static_cast<size_t>(last) * static_cast<size_t>(vocabulary_) + static_cast<size_t>(next);
  }

  // DATA_LOSS when the accepted nodes are no path from the root, or no token follows them.
  [[nodiscard]] absl::StatusOr<size_t> CellOf(const Acceptance& acceptance) const;

  // The probability of each cell, given each row's distribution [rows][V].
  [[nodiscard]] std::vector<double> Probabilities(
      const std::vector<std::vector<double>>& of_rows) const;

  // How much of a walk is left to chance below the root, in nats: the entropies of the choices
  // after each node, weighted with how often walks get there.
  [[nodiscard]] double EntropyBelowRoot(const std::vector<std::vector<double>>& of_rows) const;

  // Where the outcomes of `cell` go when only the first `choices` of a walk are looked at; 0: all.
  [[nodiscard]] size_t Shortened(size_t cell, int choices) const;

 private:
  // How likely a walk comes to each node.
  [[nodiscard]] std::vector<double> Reach(const std::vector<std::vector<double>>& of_rows) const;

  const DraftTree* const tree_;
  const int vocabulary_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_EXACTNESS_WALK_OUTCOMES_H_
