#include "orchestrator/policy/candidate_source.h"

#include <cmath>

#include "gmock/gmock.h"
#include "orchestrator/policy/policy.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;

constexpr int kTokens = 100;

// One position with two candidates.
CycleDraft DraftOf(TokenId first, float probability, TokenId second, float second_probability) {
  return CycleDraft({.positions = 1,
                     .candidates = 2,
                     .tokens = {first, second},
                     .log_probs = {std::log(probability), std::log(second_probability)}});
}

TEST(CandidateSourceTest, ANodeBelongsToTheSourceThatGivesItsTokenTheHighestProbability) {
  SharedLearning memory({.vocabulary = kTokens});
  const Policy policy = *Policy::Parse("fixed:4+prior:request");
  CandidateSource candidates({.policy = policy, .memory = &memory});
  // After 1 came 2, three times.
  candidates.AppendPrompt({1, 2, 3, 1, 2, 4, 1, 2, 5, 1}, "");
  DraftTree tree(1);
  tree.Add(0, 2, -0.1f);
  tree.Add(0, 7, -1.0f);
  tree.Add(1, 9, -2.0f);
  // The drafter knows 7 well and 2 badly.
  const CycleDraft draft = DraftOf(7, 0.5f, 2, 0.01f);
  EXPECT_THAT(candidates.SourcesOf(tree, draft),
              ElementsAre(NodeSource::kRequest, NodeSource::kDraft, NodeSource::kDraft));
  // It knows 2 best.
  const CycleDraft better = DraftOf(2, 0.999f, 7, 0.0005f);
  EXPECT_THAT(candidates.SourcesOf(tree, better),
              ElementsAre(NodeSource::kDraft, NodeSource::kDraft, NodeSource::kDraft));
}

TEST(CandidateSourceTest, WithoutAPriorAllNodesAreOfTheDraft) {
  SharedLearning memory;
  const Policy policy = *Policy::Parse("fixed:4");
  const CandidateSource candidates({.policy = policy, .memory = &memory});
  DraftTree tree(1);
  tree.Add(0, 2, -0.1f);
  const CycleDraft draft = DraftOf(2, 0.5f, 3, 0.1f);
  EXPECT_THAT(candidates.SourcesOf(tree, draft), ElementsAre(NodeSource::kDraft));
}

}  // namespace
}  // namespace bastion
