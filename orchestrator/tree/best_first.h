// BestFirst: the optimal draft tree of every size, one node at a time (DDTree, Algorithm 1;
// BASTION, Proposition 2.3).
//
// Nodes come in globally non-increasing path score ρ, so after N calls of Next() the tree is the
// one of N nodes with the largest expected committed length, and the trees are nested. Whoever sets
// the budget looks at Peek() and stops when it likes.
//
// The heap holds rank tuples. Taking the node with rank r at depth d offers its next sibling (rank
// r+1, same parent) and its first child (rank 0 at depth d+1), each whether or not the other
// exists. (BASTION's printed Algorithm 1 offers the child only together with a sibling; that is a
// misprint.) Ties are broken by the order of offering, sibling before child. Candidates of zero
// probability are never offered. Sums are kept in double, in path order, so a result is
// reproducible.
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
  // Will grow `*tree`; neither it nor `rows` is owned, both must outlive this. Up to
  // `expected_nodes` nodes are added without allocating; more are allowed. REQUIRES: `*tree` is a
  // root alone.
  BestFirst(const CandidateRows& rows, int expected_nodes, DraftTree* tree);
  BestFirst(const BestFirst&) = delete;
  BestFirst& operator=(const BestFirst&) = delete;

  [[nodiscard]] bool exhausted() const { return heap_.empty(); }

  // ρ of the node that Next() would add; 0 when exhausted.
  [[nodiscard]] double Peek() const;

  // Adds the best node that is not in the tree yet and returns its ρ. REQUIRES: !exhausted().
  double Next();

 private:
  struct Candidate {
    double log_score = 0;     // Of the path.
    double parent_log_score;  // Of the path without its last token.
    uint32_t order = 0;       // Of offering.
    NodeIndex parent;
    CandidateRow row;  // What may follow the parent.
    int rank;
  };
  // Heap order: the largest score first, of equals the one offered first.
  struct Worse {
    bool operator()(const Candidate& a, const Candidate& b) const {
      if (a.log_score != b.log_score) return a.log_score < b.log_score;
      return a.order > b.order;
    }
  };

  // The candidate `next.rank` of the row, as `next` says; its score and order are filled in here.
  void Offer(Candidate next);

  const CandidateRows& rows_;
  DraftTree* const tree_;
  std::vector<Candidate> heap_;
  uint32_t offered_ = 0;
};

// The best tree of at most `budget` nodes; fewer when the candidates run out.
[[nodiscard]] DraftTree GrowBestFirst(TokenId root, const CandidateRows& rows, int budget);

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_BEST_FIRST_H_
