#include "orchestrator/profile/random_tree.h"

#include "common/base/check.h"
#include "common/base/random.h"

namespace bastion {
namespace {

uint32_t RandomWord(uint64_t seed, uint32_t index) {
  const PhiloxKey key = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  return Philox4x32({index, 0, 0, 0}, key)[0];
}

}  // namespace

TokenId RandomToken(uint64_t seed, uint32_t index, int vocabulary) {
  return static_cast<TokenId>(RandomWord(seed, index) % static_cast<uint32_t>(vocabulary));
}

DraftTree RandomTree(int rows, int vocabulary, uint64_t seed) {
  CHECK(rows >= 1 && rows <= vocabulary)
      << "rows is " << rows << "; it must be from 1 to the vocabulary size, " << vocabulary;
  uint32_t draws = 0;
  DraftTree tree(RandomToken(seed, draws++, vocabulary));
  // The nodes get consecutive tokens, so no two nodes have the same token.
  const TokenId first = RandomToken(seed, draws++, vocabulary);
  for (int node = tree.rows(); node < rows; ++node) {
    // Nodes 1 and 2 are both children of the root, so the tree is not a chain.
    const NodeIndex parent =
        node <= 2 && rows > 2 ? 0 : NodeIndex::Of(RandomWord(seed, draws++) % node);
    tree.Add(parent, (first + node) % vocabulary, tree.log_score(parent) - 1.0f);
  }
  return tree;
}

}  // namespace bastion
