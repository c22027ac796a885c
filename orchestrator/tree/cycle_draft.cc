#include "orchestrator/tree/cycle_draft.h"

#include <algorithm>

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

CycleDraft::Place CycleDraft::Find(const DraftTree& tree, NodeIndex node) const {
  // A block drafter expands the root alone, so the depth decides.
  if (!expands_nodes_) {
    const int depth = tree.depth(node);
    if (depth >= root_positions()) return {};
    return {&root_.marginals, depth, depth};
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

CycleDraft::Place CycleDraft::Find(absl::Span<const TokenId> path) const {
  const auto depth = static_cast<int>(path.size());
  Place place;
  int at = 0;
  for (int above = 0;; ++above) {
    const Entry& expanded = entry(at);
    const int position = depth - above;
    if (position < expanded.marginals.positions) {
      place = {&expanded.marginals, position, expanded.first_place + position};
    }
    if (above == depth) break;
    const auto child = children_.find({at, path[above]});
    if (child == children_.end()) break;
    at = child->second;
  }
  return place;
}

std::vector<TreePath> CycleDraft::TakeMissing() {
  std::vector<TreePath> missing = std::exchange(missing_, {});
  std::sort(missing.begin(), missing.end());
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return missing;
}

}  // namespace bastion
