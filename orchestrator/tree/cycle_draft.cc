#include "orchestrator/tree/cycle_draft.h"

#include <algorithm>
#include <cstddef>

namespace bastion {

TreePath PathOf(const DraftTree& tree, NodeIndex node) {
  TreePath path(static_cast<size_t>(tree.depth(node)));
  for (auto token = path.rbegin(); token != path.rend(); ++token) {
    *token = tree.token(node);
    node = tree.parent(node);
  }
  return path;
}

void CycleDraft::Clear() {
  root_ = {};
  if (!others_.empty()) {
    others_.clear();
    children_.clear();
  }
  places_ = 0;
  expands_nodes_ = false;
  missing_.clear();
}

void CycleDraft::Add(absl::Span<const TokenId> path, Marginals marginals) {
  if (marginals.empty()) return;
  int at = 0;
  for (const TokenId token : path) {
    const auto [child, added] =
        children_.try_emplace({at, token}, static_cast<int>(others_.size()) + 1);
    if (added) others_.push_back(std::make_unique<Entry>());
    at = child->second;
  }
  entry(at).first_place = places_;
  places_ += marginals.positions;
  entry(at).marginals = std::move(marginals);
}

CycleDraft::Place CycleDraft::PlaceAt(const Marginals& marginals, int position, int index,
                                      TokenId before) {
  Place place = {&marginals, position, index};
  if (marginals.pair_scores.empty()) return place;
  if (position == 0) {
    place.pair_row = 0;
    return place;
  }
  for (int rank = 0; rank < marginals.candidates; ++rank) {
    if (marginals.token(position - 1, rank) == before) place.pair_row = rank;
  }
  return place;
}

CycleDraft::Place CycleDraft::Find(const DraftTree& tree, NodeIndex node) const {
  // A block drafter expands the root alone, so the depth decides.
  if (!expands_nodes_) {
    const int depth = tree.depth(node);
    if (depth >= root_positions()) return {};
    return PlaceAt(root_.marginals, depth, depth, tree.token(node));
  }
  return Find(PathOf(tree, node));
}

CycleDraft::Place CycleDraft::After(const DraftTree& tree, NodeIndex node) {
  if (!expands_nodes_) return Find(tree, node);
  TreePath path = PathOf(tree, node);
  const Place place = Find(path);
  if (!place.known()) missing_.push_back(std::move(path));
  return place;
}

CycleDraft::Place CycleDraft::PlaceIn(const Entry& expanded, absl::Span<const TokenId> path,
                                      int above) {
  const int position = static_cast<int>(path.size()) - above;
  if (position >= expanded.marginals.positions) return {};
  if (position > 0 && expanded.marginals.candidates == 0) return {};
  for (int before = 0; before < position; ++before) {
    if (path[above + before] != expanded.marginals.token(before, 0)) return {};
  }
  return PlaceAt(expanded.marginals, position, expanded.first_place + position,
                 position == 0 ? kNoToken : path.back());
}

CycleDraft::Place CycleDraft::Find(absl::Span<const TokenId> path) const {
  const auto depth = static_cast<int>(path.size());
  // The root's block has one position per depth.
  if (!expands_nodes_) {
    if (depth >= root_positions()) return {};
    return PlaceAt(root_.marginals, depth, depth, depth == 0 ? kNoToken : path.back());
  }
  Place place;
  int at = 0;
  for (int above = 0;; ++above) {
    const Place nearer = PlaceIn(entry(at), path, above);
    if (nearer.known()) place = nearer;
    if (above == depth) break;
    const auto child = children_.find({at, path[above]});
    if (child == children_.end()) break;
    at = child->second;
  }
  return place;
}

CycleDraft::Place CycleDraft::InBlock(const DraftTree& tree, NodeIndex start, NodeIndex node) {
  if (!expands_nodes_) return Find(tree, node);
  const TreePath path = PathOf(tree, node);
  const auto above = static_cast<size_t>(tree.depth(start));
  int at = 0;
  for (size_t i = 0; i < above && at >= 0; ++i) {
    const auto child = children_.find({at, path[i]});
    at = child == children_.end() ? -1 : child->second;
  }
  if (at < 0 || entry(at).marginals.empty()) {
    missing_.emplace_back(path.begin(), path.begin() + static_cast<std::ptrdiff_t>(above));
    return {};
  }
  return PlaceIn(entry(at), path, static_cast<int>(above));
}

std::vector<TreePath> CycleDraft::TakeMissing() {
  std::vector<TreePath> missing = std::exchange(missing_, {});
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return missing;
}

}  // namespace bastion
