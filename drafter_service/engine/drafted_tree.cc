#include "drafter_service/engine/drafted_tree.h"

#include <algorithm>

namespace bastion::drafter {

void DraftedTree::Begin(Position committed, TokenId root, int positions) {
  committed_ = committed;
  positions_ = positions;
  cached_ = 0;
  nodes_ = {Node{.token = root}};
  children_.clear();
  entries_ = {0};
}

int DraftedTree::AddNode(int parent, int place, absl::Span<const TokenId> path) {
  const int node = nodes();
  nodes_.push_back({parent, place, path.back(), static_cast<int>(path.size())});
  int entry = 0;
  for (const TokenId token : path) {
    const auto [child, added] =
        children_.try_emplace({entry, token}, static_cast<int>(entries_.size()));
    if (added) entries_.push_back(kNone);
    entry = child->second;
  }
  entries_[entry] = node;
  return node;
}

std::vector<int> DraftedTree::NodesOn(absl::Span<const TokenId> path) const {
  std::vector<int> nodes = {0};
  int entry = 0;
  for (const TokenId token : path) {
    const auto child = entry == kNone ? children_.end() : children_.find({entry, token});
    entry = child == children_.end() ? kNone : child->second;
    nodes.push_back(entry == kNone ? kNone : entries_[entry]);
  }
  return nodes;
}

bool DraftedTree::Reaches(int node, absl::Span<const TokenId> below) const {
  if (below.empty()) return true;
  const std::vector<TokenId>& spine = nodes_[node].spine;
  return below.size() < spine.size() && std::equal(below.begin(), below.end(), spine.begin());
}

std::optional<int> DraftedTree::Add(absl::Span<const TokenId> path) {
  const std::vector<int> nodes = NodesOn(path);
  const int own = nodes.back();
  if (path.empty() || own >= cached_) return own;
  const size_t before = path.size() - 1;
  bool awaits = false;  // A node above is not in the cache.
  for (size_t above = before + 1; above-- > 0;) {
    const int node = nodes[above];
    if (node == kNone) continue;
    const auto below = path.subspan(above, before - above);
    if (node >= cached_) {
      awaits = true;
    } else if (Reaches(node, below)) {
      return AddNode(node, static_cast<int>(below.size()), path);
    }
  }
  if (nodes[before] != kNone) return AddNode(nodes[before], /*place=*/0, path);
  if (awaits && positions_ > 1) return std::nullopt;
  const std::optional<int> parent = Add(path.subspan(0, before));
  if (!parent.has_value()) return std::nullopt;
  return AddNode(*parent, /*place=*/0, path);
}

int DraftedTree::EndOfLevel() const {
  int end = cached_;
  while (end < nodes() && nodes_[end].parent < cached_) ++end;
  return end;
}

std::vector<TokenId> DraftedTree::NewTokens(int end) const {
  std::vector<TokenId> tokens;
  tokens.reserve(static_cast<size_t>(end - cached_) * positions_);
  for (int node = cached_; node < end; ++node) {
    tokens.insert(tokens.end(), positions_, nodes_[node].token);
  }
  return tokens;
}

std::vector<int> DraftedTree::NewPlaces(int end, bool by_depth) const {
  std::vector<int> places;
  places.reserve(static_cast<size_t>(end - cached_) * positions_);
  for (int node = cached_; node < end; ++node) {
    const int first = by_depth ? nodes_[node].depth : 0;
    for (int k = 0; k < positions_; ++k) places.push_back(first + k);
  }
  return places;
}

std::vector<uint64_t> DraftedTree::NewAncestors(int end) const {
  const int words = (end * positions_ + 63) / 64;
  std::vector<uint64_t> bits(static_cast<size_t>(end - cached_) * positions_ * words, 0);
  uint64_t* own = bits.data();
  for (int node = cached_; node < end; ++node) {
    for (int k = 0; k < positions_; ++k, own += words) {
      for (int at = node, last = k; at >= 0; last = nodes_[at].place, at = nodes_[at].parent) {
        for (int row = at * positions_; row <= at * positions_ + last; ++row) {
          own[row / 64] |= uint64_t{1} << (row % 64);
        }
      }
    }
  }
  return bits;
}

}  // namespace bastion::drafter
