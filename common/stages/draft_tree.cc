#include "common/stages/draft_tree.h"

#include <cmath>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"

namespace bastion {

DraftTree::DraftTree(TokenId root)
    : tokens_{root}, parents_{kNoNode}, depths_{0}, log_scores_{0.0f} {}

NodeIndex DraftTree::Add(NodeIndex parent, TokenId token, float log_score) {
  CHECK(parent >= 0 && parent < rows()) << "parent " << parent << " of " << rows() << " rows";
  tokens_.push_back(token);
  parents_.push_back(parent);
  depths_.push_back(depths_[parent] + 1);
  log_scores_.push_back(log_score);
  return NodeIndex::Of(nodes());
}

void DraftTree::Reserve(int nodes) {
  tokens_.reserve(nodes + 1);
  parents_.reserve(nodes + 1);
  depths_.reserve(nodes + 1);
  log_scores_.reserve(nodes + 1);
}

void DraftTree::Truncate(int nodes) {
  CHECK(nodes >= 0 && nodes <= this->nodes()) << nodes << " of " << this->nodes() << " nodes";
  tokens_.resize(nodes + 1);
  parents_.resize(nodes + 1);
  depths_.resize(nodes + 1);
  log_scores_.resize(nodes + 1);
}

bool DraftTree::IsChain() const {
  for (NodeIndex i = 1; i < rows(); ++i) {
    if (parents_[i] != i - 1) return false;
  }
  return true;
}

std::vector<uint64_t> DraftTree::AncestorBits() const {
  const int words = (rows() + 63) / 64;
  std::vector<uint64_t> bits(static_cast<size_t>(rows()) * words, 0);
  for (NodeIndex i = 0; i < rows(); ++i) {
    uint64_t* row = &bits[static_cast<size_t>(i) * words];
    if (i > 0) {
      const uint64_t* above = &bits[static_cast<size_t>(parents_[i]) * words];
      for (int w = 0; w < words; ++w) row[w] = above[w];
    }
    row[i.value() / 64] |= uint64_t{1} << (i.value() % 64);
  }
  return bits;
}

double DraftTree::ExpectedCommittedLength() const {
  double sum = 0;
  for (const float log_score : log_scores_) sum += std::exp(static_cast<double>(log_score));
  return sum;
}

absl::Status DraftTree::Validate(int vocabulary) const {
  absl::flat_hash_set<std::pair<NodeIndex, TokenId>> seen;
  seen.reserve(rows());
  for (NodeIndex i = 0; i < rows(); ++i) {
    if (tokens_[i] < 0 || tokens_[i] >= vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat("tree node ", i.value(), ": token ",
                                                     tokens_[i], " is outside the vocabulary of ",
                                                     vocabulary));
    }
    if (i == 0) continue;
    if (!seen.emplace(parents_[i], tokens_[i]).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("tree node ", i.value(), ": parent ", parents_[i].value(),
                       " already has a child with token ", tokens_[i]));
    }
    if (!(log_scores_[i] <= log_scores_[parents_[i]])) {
      return absl::InvalidArgumentError(absl::StrCat("tree node ", i.value(), ": log score ",
                                                     log_scores_[i], " is above its parent's ",
                                                     log_scores_[parents_[i]]));
    }
  }
  return absl::OkStatus();
}

}  // namespace bastion
