// BestFirst: grows the optimal draft tree of every size, one node at a time (DDTree, Algorithm 1;
// BASTION paper, Proposition 2.3).
//
// The path score ρ of a node is the product of the probabilities of the tokens on its path. Nodes
// are added in order of non-increasing path score, over the whole tree. After N calls of
// AddNext() the tree has the largest expected committed length of all trees of N nodes, and the
// trees are nested. The caller sets the budget: it reads PeekScore() and stops when the next node
// is not worth its cost.
//
// A heap holds the candidates that may be added next. Adding the candidate with rank r at depth d
// offers its next sibling (rank r+1, same parent) and its first child (rank 0 at depth d+1) to the
// heap. Each is offered whether or not the other exists. (Algorithm 1 as printed in the BASTION
// paper offers the child only together with a sibling; that is a misprint.) Ties go to the
// candidate offered first; the sibling is offered before the child. Candidates with zero
// probability are never offered. Scores are sums of doubles from the root down, so results are
// reproducible.
//
// The children of the last added node are looked up only when the next node is chosen, so the last
// node of a tree is never expanded for nothing.
//
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TREE_BEST_FIRST_H_
#define BASTION_ORCHESTRATOR_TREE_BEST_FIRST_H_

#include <cstdint>
#include <vector>

#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "orchestrator/tree/candidates.h"

namespace bastion {

class BestFirst {
 public:
  // Grows `*tree`. Owns neither `*tree` nor `candidates`; both must outlive this object. The first
  // `expected_nodes` nodes are added without allocation; more are allowed. REQUIRES: `*tree` is a
  // root alone.
  BestFirst(Candidates& candidates, int expected_nodes, DraftTree* tree);
  BestFirst(const BestFirst&) = delete;
  BestFirst& operator=(const BestFirst&) = delete;

  [[nodiscard]] bool exhausted() {
    ProposeChild();
    return heap_.empty();
  }

  // ρ of the node that AddNext() would add; 0 when exhausted.
  [[nodiscard]] double PeekScore();

  // Adds the best node that is not in the tree yet and returns its ρ. REQUIRES: !exhausted().
  double AddNext();

 private:
  struct Candidate {
    double log_score = 0;     // Path score, this candidate included.
    double parent_log_score;  // Path score of the parent.
    uint32_t order = 0;       // Number of candidates offered before this one.
    NodeIndex parent;
    CandidateList list;  // All candidates for children of the parent.
    int rank;            // This candidate's index in `list`.
  };
  // Heap order: the largest score first. Ties go to the candidate offered first.
  struct Worse {
    bool operator()(const Candidate& a, const Candidate& b) const {
      if (a.log_score != b.log_score) return a.log_score < b.log_score;
      return a.order > b.order;
    }
  };

  // Puts `next` into the heap and sets its score and order. Does nothing if its rank is past the
  // end of its list or its probability is zero.
  void Offer(Candidate next);
  // Offers the first child of the node that was added last.
  void ProposeChild();

  Candidates& candidates_;
  DraftTree* const tree_;
  std::vector<Candidate> heap_;
  uint32_t offered_ = 0;
  NodeIndex unoffered_ = 0;  // The node whose first child has not been offered yet, or kNoNode.
  double unoffered_score_ = 0.0;  // Its log path score.
};

// The best tree of at most `budget` nodes; fewer when the candidates run out. A negative budget
// counts as 0.
[[nodiscard]] DraftTree GrowBestFirst(TokenId root, Candidates& candidates, int budget);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_BEST_FIRST_H_
