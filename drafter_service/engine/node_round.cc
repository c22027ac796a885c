#include "drafter_service/engine/node_round.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "drafter_service/draft/draft_model.h"

namespace bastion::drafter {

void Expanding::ResolvePaths() {
  for (size_t p = 0; p < nodes.size(); ++p) {
    const std::vector<TokenId>& path = frontier->paths[p];
    if (nodes[p].has_value() || (root_only && !path.empty())) continue;
    nodes[p] = sequence->tree.Add(path);
  }
}

void AddContext(const NodeModel& model, const DraftSequence& sequence, Position end,
                nn::RowBatch& batch) {
  std::vector<TokenId> tokens;
  for (Position i = sequence.context; i < end; ++i) {
    tokens.insert(tokens.end(), model.rows_per_token(), sequence.tokens[i + model.first_token()]);
  }
  batch.AddRun({.table = &sequence.table,
                .cached = sequence.context * model.rows_per_token(),
                .position = sequence.context,
                .rows_per_token = model.rows_per_token()},
               tokens);
}

void NodeRound::AddFeatures(const DraftSequence& sequence, Position context) {
  const int rows = model_->rows_per_token(), missing = context - sequence.context;
  if (missing > 0) rows_.features.push_back({sequence.held.Rows(sequence.context, missing), rows});
  rows_.features.push_back({sequence.held.Rows(context, 1), positions()});
}

std::vector<TokenId> NodeRound::TokensOf(const DraftedTree& tree, int end) const {
  std::vector<TokenId> tokens = tree.NewTokens(end);
  const std::optional<TokenId> mask = model_->mask_token();
  for (size_t row = 0; mask.has_value() && row < tokens.size(); ++row) {
    if (row % positions() > 0) tokens[row] = *mask;
  }
  return tokens;
}

void NodeRound::Add(Expanding& one, Position context, int end, int& context_tokens) {
  const DraftSequence& sequence = *one.sequence;
  const DraftedTree& tree = sequence.tree;
  if (sequence.context < context) {
    context_tokens += context - sequence.context;
    AddContext(*model_, sequence, context, rows_.batch);
  }
  if (!model_->feature_layers().empty() && tree.cached() == 0) {
    if (model_->rows_per_token() > 0) ++context_tokens;  // The root stays in the cache.
    AddFeatures(sequence, context);
  }
  for (int node = tree.cached(); node < end && tree.cached() > 0; ++node) {
    rows_.states.append(sequence.states, tree.predictor(node) * model_->state_bytes(),
                        model_->state_bytes());
  }
  const Level level = levels_.emplace_back(Level{&one, end, rows_.batch.rows()});
  rows_.batch.AddTree({.table = &sequence.table,
                       .cached = context * model_->rows_per_token(),
                       .earlier = tree.cached() * positions(),
                       .position = context},
                      TokensOf(tree, end), tree.NewPlaces(end, model_->depth_rotates()),
                      tree.NewAncestors(end));
  for (int node = tree.cached(); node < end; ++node) {
    // A path may depend on the spine of any node.
    if (positions() > 1 || std::find(one.nodes.begin(), one.nodes.end(), node) != one.nodes.end()) {
      Want(level, node);
    }
  }
  candidates_ = std::max(candidates_, one.frontier->candidates);
}

void NodeRound::Want(const Level& level, int node) {
  const Frontier& frontier = *level.one->frontier;
  const DraftedTree& tree = level.one->sequence->tree;
  nodes_.push_back({level.one, node});
  for (int k = 0; k < positions(); ++k) {
    wanted_.push_back(level.first_row + (node - tree.cached()) * positions() + k);
    rules_.emplace_back();
    if (!frontier.coupled) continue;
    const Position position = frontier.committed + tree.depth(node) + 1 + k;
    rules_.back() = CouplingRule(frontier.sampling, position);
  }
}

absl::Status NodeRound::Run() {
  ASSIGN_OR_RETURN(const std::vector<Marginals> marginals,
                   model_->Predict(rows_, wanted_, rules_, candidates_));
  for (size_t i = 0; i < marginals.size(); ++i) Deliver(nodes_[i], marginals[i]);
  for (const Level& level : levels_) {
    KeepStates(level);
    level.one->sequence->tree.MarkCached(level.end);
  }
  return absl::OkStatus();
}

void NodeRound::Deliver(const Wanted& wanted, const Marginals& marginals) const {
  Expanding& one = *wanted.one;
  for (size_t p = 0; p < one.nodes.size(); ++p) {
    if (one.nodes[p] == wanted.node) one.draft->marginals[p] = marginals;
  }
  if (positions() == 1) return;
  std::vector<TokenId> spine(positions());
  for (int k = 0; k < positions(); ++k) spine[k] = marginals.token(k, 0);
  one.sequence->tree.SetSpine(wanted.node, std::move(spine));
}

void NodeRound::KeepStates(const Level& level) const {
  DraftSequence& sequence = *level.one->sequence;
  const size_t bytes = model_->state_bytes();
  if (bytes == 0) return;
  const int first = sequence.tree.cached() * positions();
  sequence.states.resize(first * bytes);
  for (int row = first; row < level.end * positions(); ++row) {
    sequence.states.append(model_->state(level.first_row + row - first), bytes);
  }
}

}  // namespace bastion::drafter
