#include "drafter_service/engine/draft_ahead.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr SequenceId kOne = {1, 0};
constexpr SequenceId kOther = {2, 0};

Frontier MakeFrontier(SequenceId sequence, Position committed, TokenId root, int candidates = 2) {
  Frontier frontier;
  frontier.sequence = sequence;
  frontier.committed = committed;
  frontier.root = root;
  frontier.candidates = candidates;
  return frontier;
}

// Two positions of `candidates` tokens: 10, 11, … at the first position, 20, 21, … at the second.
Draft MakeDraft(int candidates) {
  Marginals marginals;
  marginals.positions = 2;
  marginals.candidates = candidates;
  for (int p = 0; p < 2; ++p) {
    for (int k = 0; k < candidates; ++k) {
      marginals.tokens.push_back(10 * (p + 1) + k);
      marginals.log_probs.push_back(static_cast<float>(-k));
    }
  }
  return {{marginals}};
}

TEST(DraftAheadTest, PredictsTheLastExpandWithTheNewRoot) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5)});
  const auto predicted = ahead.AddArrival(kOne, 13, 7);
  ASSERT_THAT(predicted, SizeIs(1));
  EXPECT_EQ(predicted[0].sequence, kOne);
  EXPECT_EQ(predicted[0].committed, 13);
  EXPECT_EQ(predicted[0].root, 7);
  EXPECT_EQ(predicted[0].candidates, 2);
}

TEST(DraftAheadTest, AnArrivalAfterItsRequestIsIgnored) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5)});
  EXPECT_THAT(ahead.AddArrival(kOne, 10, 5), IsEmpty());
  EXPECT_THAT(ahead.AddArrival(kOne, 9, 4), IsEmpty());
  EXPECT_THAT(ahead.AddArrival(kOne, 11, 6), SizeIs(1));
}

TEST(DraftAheadTest, AReplyIsUsedOnceAndOnlyForItsRequest) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5)});
  ahead.Keep(ahead.AddArrival(kOne, 13, 7), {MakeDraft(2)});
  Draft draft;
  EXPECT_FALSE(ahead.Take(MakeFrontier(kOne, 13, 8), draft)) << "another root";
  EXPECT_FALSE(ahead.Take(MakeFrontier(kOne, 12, 7), draft)) << "fewer committed tokens";
  EXPECT_FALSE(ahead.Take(MakeFrontier({1, 1}, 13, 7), draft)) << "another epoch";
  EXPECT_FALSE(ahead.Take(MakeFrontier(kOne, 13, 7, 3), draft)) << "more candidates than there are";
  Frontier sampled = MakeFrontier(kOne, 13, 7);
  sampled.sampling.temperature = 1;
  EXPECT_FALSE(ahead.Take(sampled, draft)) << "another temperature";
  Frontier coupled = MakeFrontier(kOne, 13, 7);
  coupled.coupled = true;
  EXPECT_FALSE(ahead.Take(coupled, draft)) << "a coupled draft";
  ASSERT_TRUE(ahead.Take(MakeFrontier(kOne, 13, 7), draft));
  EXPECT_EQ(draft.marginals.at(0), MakeDraft(2).marginals[0]);
  EXPECT_FALSE(ahead.Take(MakeFrontier(kOne, 13, 7), draft)) << "a second time";
}

TEST(DraftAheadTest, ARequestForFewerCandidatesGetsTheBestOfEachPosition) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5, 4)});
  ahead.Keep(ahead.AddArrival(kOne, 13, 7), {MakeDraft(4)});
  Draft draft;
  ASSERT_TRUE(ahead.Take(MakeFrontier(kOne, 13, 7, 2), draft));
  EXPECT_EQ(draft.marginals.at(0), MakeDraft(2).marginals[0]);
}

TEST(DraftAheadTest, FewerCandidatesKeepTheBuckets) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5, 4)});
  Draft wide = MakeDraft(4);
  wide.marginals[0].buckets = {1, 3};
  ahead.Keep(ahead.AddArrival(kOne, 13, 7), {wide});
  Draft draft;
  ASSERT_TRUE(ahead.Take(MakeFrontier(kOne, 13, 7, 2), draft));
  EXPECT_THAT(draft.marginals.at(0).buckets, ElementsAre(1, 3));
  EXPECT_EQ(draft.marginals.at(0).candidates, 2);
}

TEST(DraftAheadTest, FewerCandidatesKeepTheirPairScores) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5, 3)});
  Draft wide = MakeDraft(3);
  wide.marginals[0].pair_scores = {1, 2, 3, 0, 0, 0, 0, 0, 0, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  ahead.Keep(ahead.AddArrival(kOne, 13, 7), {wide});
  Draft draft;
  ASSERT_TRUE(ahead.Take(MakeFrontier(kOne, 13, 7, 2), draft));
  EXPECT_THAT(draft.marginals.at(0).pair_scores, ElementsAre(1, 2, 0, 0, 4, 5, 7, 8));
}

TEST(DraftAheadTest, PredictsTheLargestNumberOfCandidatesRequestedSoFar) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5, 6)});
  ahead.PredictNext({MakeFrontier(kOne, 13, 7, 3)});
  EXPECT_EQ(ahead.AddArrival(kOne, 14, 9).at(0).candidates, 6);
}

TEST(DraftAheadTest, SequencesRequestedTogetherAreDraftedTogether) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5), MakeFrontier(kOther, 20, 6)});
  EXPECT_THAT(ahead.AddArrival(kOther, 21, 3), IsEmpty());
  EXPECT_THAT(ahead.AddArrival(kOther, 21, 3), IsEmpty()) << "the same arrival twice";
  EXPECT_THAT(ahead.AddArrival({3, 0}, 4, 3), IsEmpty()) << "a sequence that was not requested";
  EXPECT_THAT(ahead.AddArrival(kOne, 12, 4), SizeIs(2));
}

TEST(DraftAheadTest, DoesNotWaitForAClosedSequence) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5), MakeFrontier(kOther, 20, 6)});
  ahead.Forget(kOther);
  EXPECT_THAT(ahead.AddArrival(kOther, 21, 3), IsEmpty());
  EXPECT_THAT(ahead.AddArrival(kOne, 12, 4), SizeIs(1));
}

TEST(DraftAheadTest, ASequenceThatIsNoLongerRequestedIsDraftedAtMostOnceMore) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5)});
  EXPECT_THAT(ahead.AddArrival(kOne, 11, 6), SizeIs(1));
  EXPECT_THAT(ahead.AddArrival(kOne, 12, 7), IsEmpty());
  EXPECT_THAT(ahead.AddArrival(kOne, 13, 8), IsEmpty());
}

TEST(DraftAheadTest, ADraftThatFailedIsNotKept) {
  DraftAhead ahead;
  ahead.PredictNext({MakeFrontier(kOne, 10, 5)});
  ahead.Keep(ahead.AddArrival(kOne, 13, 7), {Draft{{Marginals()}}});
  Draft draft;
  EXPECT_FALSE(ahead.Take(MakeFrontier(kOne, 13, 7), draft));
}

}  // namespace
}  // namespace bastion::drafter
