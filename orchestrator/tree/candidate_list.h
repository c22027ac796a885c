// CandidateList: the ranked tokens that may follow one node. Plain data.
#ifndef BASTION_ORCHESTRATOR_TREE_CANDIDATE_LIST_H_
#define BASTION_ORCHESTRATOR_TREE_CANDIDATE_LIST_H_

#include "common/base/ids.h"
#include "common/stages/marginals.h"

namespace bastion {

// The candidates after one node, best first. Scores are log-probabilities: non-increasing, <= 0 and
// not NaN. A candidate with score -inf is never taken. Tokens are distinct.
struct CandidateList {
  const TokenId* tokens = nullptr;    // [size]
  const float* log_scores = nullptr;  // [size]
  int size = 0;
  int bucket = kNoBucket;  // The rank that the drafter expects (marginals.h), if it says so.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_CANDIDATE_LIST_H_
