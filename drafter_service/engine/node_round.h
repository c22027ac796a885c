// NodeRound: the nodes of several sequences that one forward of an autoregressive drafter expands,
// with the context that they lack. Thread-compatible.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_NODE_ROUND_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_NODE_ROUND_H_

#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "common/stages/stage_data.h"
#include "drafter_service/draft/node_model.h"
#include "drafter_service/engine/draft_sequences.h"

namespace bastion::drafter {

// One frontier during an Expand.
struct Expanding {
  const Frontier* frontier;
  DraftSequence* sequence;
  Draft* draft;
  // The node of each path. Nullopt: it depends on what a node will predict, or the model expands
  // only the root.
  std::vector<std::optional<int>> nodes = {};
  bool root_only = false;

  // Finds or adds the nodes of paths, as far as they do not depend on predictions.
  void ResolvePaths();
};

// Adds the rows of the sequence's context up to token `end` to `batch`.
void AddContext(const NodeModel& model, const DraftSequence& sequence, Position end,
                nn::RowBatch& batch);

class NodeRound {
 public:
  // `model` must outlive the round.
  explicit NodeRound(NodeModel* model) : model_(model) {}

  [[nodiscard]] bool empty() const { return levels_.empty(); }
  [[nodiscard]] int rows() const { return rows_.batch.rows(); }
  [[nodiscard]] int wanted_rows() const { return static_cast<int>(wanted_.size()); }

  // Adds the nodes of the frontier's tree that are not in the cache and lie before `end`, after the
  // rows of its context up to token `context` that are not. Adds to `context_tokens` how many
  // tokens these are, with the root if its rows stay in the cache. REQUIRES: the sequence's pages
  // cover them; `one` stays where it is.
  void Add(Expanding& one, Position context, int end, int& context_tokens);

  // Runs the forward. Stores marginals in the drafts, and spines and states in the sequences.
  [[nodiscard]] absl::Status Run();

 private:
  // The nodes of one sequence.
  struct Level {
    Expanding* one;
    int end;
    int first_row;  // In the batch.
  };
  struct Wanted {
    Expanding* one;
    int node;
  };

  [[nodiscard]] int positions() const { return model_->positions(); }  // P
  // Adds the features of the context up to token `context` that lacks rows, and those of the root.
  void AddFeatures(const DraftSequence& sequence, Position context);
  // The tokens of the tree's new rows before `end`.
  [[nodiscard]] std::vector<TokenId> TokensOf(const DraftedTree& tree, int end) const;
  // Adds the rows of `node` to those with marginals.
  void Want(const Level& level, int node);
  void Deliver(const Wanted& wanted, const Marginals& marginals) const;
  void KeepStates(const Level& level) const;

  NodeModel* model_;
  NodeRows rows_;
  std::vector<Level> levels_;
  // The nodes with marginals, their rows, and how to choose the candidates of each row.
  std::vector<Wanted> nodes_;
  std::vector<int> wanted_;
  std::vector<kernels::ChoiceRule> rules_;
  int candidates_ = 1;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_NODE_ROUND_H_
