// CandidateArena: memory for candidate lists, at stable addresses. Header-only. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TREE_CANDIDATE_ARENA_H_
#define BASTION_ORCHESTRATOR_TREE_CANDIDATE_ARENA_H_

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "orchestrator/tree/candidate_list.h"

namespace bastion {

// One candidate of a list that is being made.
struct ScoredToken {
  TokenId token;
  float log_score;
};

// In descending order of score; the smaller token first on ties.
inline void SortBestFirst(std::vector<ScoredToken>& scored) {
  std::sort(scored.begin(), scored.end(), [](const ScoredToken& a, const ScoredToken& b) {
    return a.log_score != b.log_score ? a.log_score > b.log_score : a.token < b.token;
  });
}

class CandidateArena {
 public:
  // Copies `scored`. The list is valid as long as this object exists.
  [[nodiscard]] CandidateList Store(absl::Span<const ScoredToken> scored) {
    const auto size = static_cast<int>(scored.size());
    if (size == 0) return {};
    if (free_ < size) {
      free_ = std::max(kChunk, size);
      chunks_.push_back({std::make_unique_for_overwrite<TokenId[]>(free_),
                         std::make_unique_for_overwrite<float[]>(free_)});
    }
    free_ -= size;
    TokenId* tokens = &chunks_.back().tokens[free_];
    float* log_scores = &chunks_.back().log_scores[free_];
    for (int i = 0; i < size; ++i) {
      tokens[i] = scored[i].token;
      log_scores[i] = scored[i].log_score;
    }
    return {tokens, log_scores, size};
  }

 private:
  struct Chunk {
    std::unique_ptr<TokenId[]> tokens;
    std::unique_ptr<float[]> log_scores;
  };
  static constexpr int kChunk = 512;  // Candidates.

  std::vector<Chunk> chunks_;
  int free_ = 0;  // Unused candidates of the last chunk.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TREE_CANDIDATE_ARENA_H_
