#include "drafter_service/engine/drafted_tree.h"

namespace bastion::drafter {

void DraftedTree::Begin(Position committed, TokenId root) {
  committed_ = committed;
  cached_ = 0;
  tokens_ = {root};
  parents_ = {-1};
  depths_ = {0};
  children_.clear();
}

int DraftedTree::AddRow(int parent, TokenId token) {
  const int row = rows();
  tokens_.push_back(token);
  parents_.push_back(parent);
  depths_.push_back(depths_[parent] + 1);
  children_[{parent, token}] = row;
  return row;
}

int DraftedTree::Add(absl::Span<const TokenId> path) {
  int row = 0;
  for (size_t i = 0; i < path.size(); ++i) {
    const auto child = children_.find({row, path[i]});
    const bool usable =
        child != children_.end() && (i + 1 < path.size() || child->second >= cached_);
    row = usable ? child->second : AddRow(row, path[i]);
  }
  return row;
}

std::vector<uint64_t> DraftedTree::NewAncestors() const {
  const int words = (rows() + 63) / 64;
  std::vector<uint64_t> bits(static_cast<size_t>(rows() - cached_) * words, 0);
  for (int row = cached_; row < rows(); ++row) {
    uint64_t* const own = bits.data() + static_cast<size_t>(row - cached_) * words;
    for (int at = row; at >= 0; at = parents_[at]) own[at / 64] |= uint64_t{1} << (at % 64);
  }
  return bits;
}

}  // namespace bastion::drafter
