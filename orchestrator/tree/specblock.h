// The tree of SpecBlock: blocks of K positions, whose rank head says how far each position
// branches.
//
// Terms: a start is a node with a block of its own (CycleDraft::InBlock). The chain of a block is
// its most probable token at each position. A slot is one position of a block. Its width is the
// number of children that the chain's node before it gets: the chain's next node, and siblings. The
// width depends on the slot's bucket (marginals.h), through `map`.
//
// The released algorithm (shiweijiezero/SpecBlock at b7938c5, _specblock_base.py) is the default:
//
//   1. Each start adds the whole chain of its block to a pool, and then the siblings of each slot.
//      Confident slots are narrower: at most 2 wide if the first candidate has probability >= .95,
//      at most 3 if >= .85. In the block of the root, slot 1 ignores its bucket: its width is 3, 5,
//      8 or 10 at >= .9, >= .8, >= .6 or below.
//   2. A slot of width 0 gives up: it and the slots after it have no siblings.
//   3. All nodes of slots wider than 1 start blocks in the next round, and so does the end of a
//      chain that did not give up. After the second block, only the min(starts, max(1, (nodes −
//      pool) / K)) best of them do.
//   4. The tree is the `nodes` best nodes of the pool by path score, best first. Of two equal
//      scores, the node that entered the pool first is better.
//
// What the paper describes differs: it has no cuts by probability and no pool, and a block ends
// where it gives up. `literal` is our reading of it:
//
//   Every start adds its slots in order: as many children as its width. The first one is the parent
//   of the next slot. A slot of width 0 ends the block. The tree ends at `nodes` nodes, in the
//   order in which they were added. In the next round, the `starts` best nodes by path score start
//   blocks: the ends of chains that were not cut, and siblings of slots with bucket 1 or 2.
//
// Where neither says it, or this differs from the released code:
//   - The code keeps two nodes if the blocks of a node and of its ancestor both predict a token
//     after it, and it verifies the token twice. Here they are one node, with the larger of the two
//     log-probabilities. So the pool has the same paths with the same best scores, but fewer nodes.
//   - A node starts at most one block, and only if its children may be in the tree (max_depth).
//   - The code decides by the first bucket above 0 whether the end of the root's chain starts a
//     block. Here any slot that gives up counts, as in its other blocks.
//   - A position without a bucket counts as bucket 1. So a drafter without a rank head gets
//     map[1] children per node.
//
// With other drafters: the block of a block drafter's node is all positions below it, and that of
// an autoregressive drafter's node is one position. Thread-safe: no state.
#ifndef BASTION_ORCHESTRATOR_TREE_SPECBLOCK_H_
#define BASTION_ORCHESTRATOR_TREE_SPECBLOCK_H_

#include <array>

#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "common/stages/marginals.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

struct SpecBlockShape {
  static constexpr int kRootWidth = 10;  // The largest width of the root.

  std::array<int, kRankBuckets> map = {2, 4, 10, 0};  // Width by bucket. 0: give up.
  int nodes = 60;                                     // Without the root.
  int blocks = 2;                                     // M: blocks per path, and rounds.
  int starts = 10;                                    // The literal algorithm uses 8.
  bool literal = false;
  // Literal only: siblings of all buckets may start blocks.
  bool any_bucket = false;
  // The width of all slots, without buckets and cuts. 0: off.
  int uniform = 0;
};

// REQUIRES: no number of `shape` is negative; nodes, blocks and starts are at least 1.
[[nodiscard]] DraftTree GrowSpecBlock(TokenId root, Candidates& candidates,
                                      const SpecBlockShape& shape);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_SPECBLOCK_H_
