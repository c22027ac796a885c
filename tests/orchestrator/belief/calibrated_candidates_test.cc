#include "orchestrator/belief/calibrated_candidates.h"

#include <cmath>

#include "gtest/gtest.h"
#include "orchestrator/tree/best_first.h"
#include "tests/support/random_marginals.h"

namespace bastion {
namespace {

using ::bastion::testing::Ladder;
using ::bastion::testing::MarginalsOf;

constexpr TokenId kFirst = 7;
constexpr double kLow = 1e-6;

// Teaches `calibration` that candidates of `kind` at `depth` are right with probability `accepted`.
void Teach(AcceptanceCalibration& calibration, PathKind kind, int depth, double stated,
           double accepted) {
  const auto log_prob = static_cast<float>(std::log(stated));
  double owed = 0;
  for (int i = 0; i < 4000; ++i) {
    owed += accepted;
    calibration.Observe(kind, depth, log_prob, stated, owed >= 1);
    if (owed >= 1) owed -= 1;
  }
  calibration.EndCycle();
  calibration.Refresh();
}

TEST(CalibratedCandidatesTest, WithoutObservationsTheyGrowTheTreeOfTheDraft) {
  std::mt19937 random(1);
  const Marginals marginals = testing::RandomMarginals(random, 8, 16, testing::EdgeCase::kNone, 8);
  DraftCandidates draft(marginals);
  const AcceptanceCalibration calibration;
  CalibratedCandidates calibrated(draft, calibration, Trust(), kLow);
  EXPECT_EQ(GrowBestFirst(kFirst, calibrated, 60), GrowBestFirst(kFirst, draft, 60));
}

TEST(CalibratedCandidatesTest, PathScoresAreCalibratedValues) {
  const Marginals marginals = MarginalsOf({{0.8, 0.1}, {0.6, 0.2}});
  DraftCandidates draft(marginals);
  AcceptanceCalibration calibration;
  Teach(calibration, PathKind::kSpine, 1, 0.8, 0.5);
  CalibratedCandidates calibrated(draft, calibration, Trust(), kLow);
  const DraftTree tree = GrowBestFirst(kFirst, calibrated, 1);
  EXPECT_EQ(tree.token(1), 0);
  EXPECT_NEAR(std::exp(tree.log_score(1)), 0.5, 0.02);
}

TEST(CalibratedCandidatesTest, ASiblingThatIsRightMoreOftenComesFirst) {
  const Marginals marginals = MarginalsOf({{0.6, 0.3}});
  DraftCandidates draft(marginals);
  AcceptanceCalibration calibration;
  Teach(calibration, PathKind::kSpine, 1, 0.6, 0.1);
  Teach(calibration, PathKind::kSibling, 1, 0.3, 0.5);
  CalibratedCandidates calibrated(draft, calibration, Trust(), kLow);
  EXPECT_EQ(GrowBestFirst(kFirst, calibrated, 1).token(1), 1);
}

TEST(CalibratedCandidatesTest, ScoresNeverIncreaseInTheOrderOfGrowth) {
  std::mt19937 random(3);
  AcceptanceCalibration calibration;
  Teach(calibration, PathKind::kOffSpine, 2, 0.4, 0.9);
  Teach(calibration, PathKind::kSpine, 2, 0.4, 0.1);
  for (int draw = 0; draw < 20; ++draw) {
    const Marginals marginals =
        testing::RandomMarginals(random, 8, 16, testing::EdgeCase::kNone, 6);
    DraftCandidates draft(marginals);
    CalibratedCandidates calibrated(draft, calibration, Trust(), kLow);
    const DraftTree tree = GrowBestFirst(kFirst, calibrated, 100);
    ASSERT_TRUE(tree.Validate(100'000).ok());
    for (NodeIndex i = 2; i < tree.rows(); ++i) EXPECT_LE(tree.log_score(i), tree.log_score(i - 1));
  }
}

TEST(CalibratedCandidatesTest, LeaveOutNodesBelowTheMinimum) {
  const Marginals marginals = MarginalsOf(Ladder(8, 16, 0.7));
  DraftCandidates draft(marginals);
  const AcceptanceCalibration calibration;
  CalibratedCandidates calibrated(draft, calibration, Trust(), 0.2);
  const DraftTree tree = GrowBestFirst(kFirst, calibrated, 1000);
  const DraftTree all = GrowBestFirst(kFirst, draft, 1000);
  int valuable = 0;
  for (NodeIndex i = 1; i < all.rows(); ++i) valuable += std::exp(all.log_score(i)) >= 0.2 ? 1 : 0;
  EXPECT_EQ(tree.nodes(), valuable);
  EXPECT_GT(valuable, 3);
}

TEST(CalibratedCandidatesTest, TrustMovesAllCandidatesOfARequest) {
  const Marginals marginals = MarginalsOf({{0.6, 0.3}});
  DraftCandidates draft(marginals);
  const AcceptanceCalibration calibration;
  Trust trust;
  for (int i = 0; i < 100; ++i) trust.Observe(0.9, false);
  CalibratedCandidates calibrated(draft, calibration, trust, kLow);
  EXPECT_LT(std::exp(GrowBestFirst(kFirst, calibrated, 1).log_score(1)), 0.4);
}

TEST(ObserveChoicesTest, LearnsAlongTheTargetsPathWhetherOrNotItWasVerified) {
  const Marginals marginals = MarginalsOf({{0.5, 0.4}, {0.5, 0.4}});
  DraftCandidates draft(marginals);
  AcceptanceCalibration calibration;
  Trust trust;
  // The target always takes the sibling at depth 1, then a token that no candidate predicts.
  for (int i = 0; i < 400; ++i) {
    ObserveChoices(draft, kFirst, {1, 777}, &calibration, &trust);
    calibration.EndCycle();
    calibration.Refresh();
  }
  const auto factor = [&](PathKind kind, int depth, double stated) {
    return std::exp(calibration.LogFactor(kind, depth, static_cast<float>(std::log(stated))));
  };
  EXPECT_LT(factor(PathKind::kSpine, 1, 0.5), 0.1);
  EXPECT_NEAR(0.4 * factor(PathKind::kSibling, 1, 0.4), 1, 0.1);
  EXPECT_LT(factor(PathKind::kOffSpine, 2, 0.5), 0.1);
}

TEST(ObserveChoicesTest, StopsWhereTheCandidatesEnd) {
  const Marginals marginals = MarginalsOf({{0.5, 0.4}});
  DraftCandidates draft(marginals);
  AcceptanceCalibration calibration;
  Trust trust;
  ObserveChoices(draft, kFirst, {0, 100, 200}, &calibration, &trust);
  EXPECT_FLOAT_EQ(calibration.LogFactor(PathKind::kSpine, 2, -1), 0);
}

}  // namespace
}  // namespace bastion
