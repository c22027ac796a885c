#include "drafter_service/replay/block_accuracy.h"

#include <algorithm>
#include <iterator>

#include "drafter_service/replay/acceptance_profile.h"

namespace bastion::drafter {
namespace {

// The first ranks of buckets 1, 2 and 3, from 0 (marginals.h).
constexpr std::array<int, kRankBuckets - 1> kFirstRanks = {1, 4, 10};

int BucketOfRank(int rank) {
  if (rank == ProfiledBlock::kAbsent) return kRankBuckets - 1;
  const auto above = std::upper_bound(kFirstRanks.begin(), kFirstRanks.end(), rank);
  return static_cast<int>(above - kFirstRanks.begin());
}

}  // namespace

void BlockAccuracyCounter::Drafted(const Frontier& frontier, const std::vector<TokenId>& /*tokens*/,
                                   Draft& draft) {
  std::vector<Block>& blocks = blocks_[frontier.sequence];
  const std::ptrdiff_t known = std::ssize(blocks);
  for (size_t i = 0; i < draft.marginals.size(); ++i) {
    const std::vector<TokenId>& path = frontier.paths[i];
    if (draft.marginals[i].empty()) continue;
    // The block before is that of the nearest ancestor with one of an earlier round. Those of this
    // cycle come last.
    int number = 0;
    for (std::ptrdiff_t at = known - 1; at >= 0 && blocks[at].committed == frontier.committed;
         --at) {
      const Block& block = blocks[at];
      const bool before = block.path.size() < path.size() &&
                          std::equal(block.path.begin(), block.path.end(), path.begin());
      if (before) number = std::max(number, block.number + 1);
    }
    blocks.push_back({frontier.committed, path, number, draft.marginals[i]});
  }
}

void BlockAccuracyCounter::Count(const Block& block, const std::vector<TokenId>& tokens) {
  const size_t root = static_cast<size_t>(block.committed);
  const size_t first = root + 1 + block.path.size();
  if (first > tokens.size()) return;
  const auto text = tokens.begin() + static_cast<std::ptrdiff_t>(root) + 1;
  if (!std::equal(block.path.begin(), block.path.end(), text)) return;
  const Marginals& marginals = block.marginals;
  std::vector<std::vector<BlockAccuracy::Count>>& all = accuracy_.blocks;
  if (all.size() <= static_cast<size_t>(block.number)) all.resize(block.number + 1);
  std::vector<BlockAccuracy::Count>& counts = all[block.number];
  counts.resize(std::max(counts.size(), static_cast<size_t>(marginals.positions)));
  for (int p = 0; p < marginals.positions && first + p < tokens.size(); ++p) {
    const int rank = RankOf(tokens[first + p], marginals, p);
    if (marginals.bucket(p) != kNoBucket) {
      ++accuracy_.buckets[BucketOfRank(rank)][marginals.bucket(p)];
    }
    ++counts[p].tried;
    if (rank != 0) return;
    ++counts[p].right;
  }
}

void BlockAccuracyCounter::Closing(SequenceId sequence, const std::vector<TokenId>& tokens) {
  const auto found = blocks_.find(sequence);
  if (found == blocks_.end()) return;
  for (const Block& block : found->second) Count(block, tokens);
  blocks_.erase(found);
}

}  // namespace bastion::drafter
