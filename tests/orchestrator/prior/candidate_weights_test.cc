#include "orchestrator/prior/candidate_weights.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace bastion {
namespace {

constexpr int kGain = kFirstGainTerm + static_cast<int>(PriorSource::kTableOne);
constexpr int kOtherGain = kFirstGainTerm + static_cast<int>(PriorSource::kRequestTwo);

CandidateTerms Terms(float draft, float gain = 0, float other_gain = 0) {
  CandidateTerms terms{};
  terms[kDraftTerm] = draft;
  terms[kGain] = gain;
  terms[kOtherGain] = other_gain;
  return terms;
}

// Eight random candidates. For each of two sources, each has a gain with probability 1/3.
std::vector<CandidateTerms> RandomCandidates(std::mt19937& random) {
  std::uniform_real_distribution<float> log_prob(-6, 0), gain(0, 6);
  std::vector<CandidateTerms> candidates;
  for (int i = 0; i < 8; ++i) {
    candidates.push_back(
        Terms(log_prob(random), random() % 3 ? 0 : gain(random), random() % 3 ? 0 : gain(random)));
  }
  return candidates;
}

// The index of one candidate, drawn from softmax(truth · t).
size_t Draw(const std::vector<CandidateTerms>& candidates, const CandidateTerms& truth,
            std::mt19937& random) {
  std::vector<double> masses;
  for (const CandidateTerms& terms : candidates) {
    masses.push_back(std::exp(CandidateWeights::Score(truth, terms)));
  }
  return std::discrete_distribution<size_t>(masses.begin(), masses.end())(random);
}

// `weights` after `steps` updates with choices drawn with the weights `truth`.
CandidateWeights Trained(CandidateWeights weights, const CandidateTerms& truth, int steps) {
  std::mt19937 random(7);
  for (int step = 0; step < steps; ++step) {
    const auto candidates = RandomCandidates(random);
    weights.Update(2, candidates, Draw(candidates, truth, random));
  }
  return weights;
}

TEST(CandidateWeightsTest, StartsWithTheFullDraftTermAndSmallGains) {
  const CandidateWeights weights = CandidateWeights::ForDrafts();
  EXPECT_EQ(weights.At(1)[kDraftTerm], 1);
  EXPECT_LT(weights.At(1)[kGain], weights.At(2)[kGain]);
  EXPECT_EQ(weights.At(CandidateWeights::kMaxDepth), weights.At(100));
  EXPECT_EQ(CandidateWeights::ForPriorAlone().At(1)[kGain], 1);
}

TEST(CandidateWeightsTest, OneStepMatchesAHandComputation) {
  // Two candidates that differ only in the drafter's log-probability.
  const std::vector<CandidateTerms> candidates = {Terms(std::log(0.5f)), Terms(std::log(0.25f))};
  CandidateWeights weights = CandidateWeights::ForDrafts();
  weights.Update(1, candidates, 0);
  // The model gives them 2/3 and 1/3, so the term has mean ln 1/2 − ln2/3 and variance 2/9 ln²2.
  const double ln2 = std::log(2.0);
  const double expected =
      1 + (ln2 / 3) / (2.0 / 9 * ln2 * ln2 + CandidateWeights::kInitialCurvature);
  EXPECT_NEAR(weights.At(1)[kDraftTerm], expected, 1e-5);
  EXPECT_EQ(weights.At(1)[kGain], CandidateWeights::ForDrafts().At(1)[kGain]);
  EXPECT_EQ(weights.At(2), CandidateWeights::ForDrafts().At(2));
}

TEST(CandidateWeightsTest, ConvergesToTheTrueWeights) {
  CandidateTerms truth = Terms(1.5f, 0.3f, 0.9f);
  const CandidateWeights weights = Trained(CandidateWeights::ForDrafts(), truth, 4000);
  EXPECT_NEAR(weights.At(2)[kDraftTerm], 1.5, 0.3);
  EXPECT_NEAR(weights.At(2)[kGain], 0.3, 0.15);
  EXPECT_NEAR(weights.At(2)[kOtherGain], 0.9, 0.2);
}

TEST(CandidateWeightsTest, TheWeightOfAMisleadingSourceFallsToZero) {
  const CandidateTerms truth = Terms(1, -0.5f, 0);
  const CandidateWeights weights = Trained(CandidateWeights::ForDrafts(), truth, 1000);
  EXPECT_EQ(weights.At(2)[kGain], 0);
  EXPECT_LT(weights.At(2)[kOtherGain], 0.15);
}

TEST(CandidateWeightsTest, FollowsAChangeOfTheTrueWeights) {
  CandidateWeights weights = Trained(CandidateWeights::ForDrafts(), Terms(1, 1, 0), 3000);
  EXPECT_GT(weights.At(2)[kGain], 0.7);
  weights = Trained(weights, Terms(1, 0, 1), 3000);
  EXPECT_LT(weights.At(2)[kGain], 0.2);
  EXPECT_GT(weights.At(2)[kOtherGain], 0.7);
}

TEST(CandidateWeightsTest, StaysWithinItsBoundsOnExtremeTerms) {
  std::mt19937 random(3);
  CandidateWeights weights = CandidateWeights::ForPriorAlone();
  for (int step = 0; step < 2000; ++step) {
    auto candidates = RandomCandidates(random);
    CandidateTerms extreme = Terms(-50, step % 2 ? 40 : 0, 0);
    extreme[kOutsideTerm] = 1;
    candidates.push_back(extreme);
    weights.Update(1 + step % 20, candidates, candidates.size() - 1);
  }
  for (int depth = 1; depth <= 20; ++depth) {
    const CandidateTerms& at = weights.At(depth);
    EXPECT_GE(at[kDraftTerm], CandidateWeights::kMinDraftWeight);
    EXPECT_LE(at[kDraftTerm], CandidateWeights::kMaxDraftWeight);
    EXPECT_LE(at[kOutsideTerm], CandidateWeights::kMaxOutsideWeight);
    EXPECT_GE(at[kGain], 0);
    EXPECT_LE(at[kGain], CandidateWeights::kMaxGainWeight);
  }
}

TEST(CandidateWeightsTest, IgnoresStepsThatAreNotFinite) {
  const float infinity = std::numeric_limits<float>::infinity();
  CandidateWeights weights = CandidateWeights::ForDrafts();
  weights.Update(1, {Terms(-infinity), Terms(-infinity)}, 0);
  weights.Update(1, {Terms(-1, infinity), Terms(-1)}, 1);
  EXPECT_EQ(weights.At(1), CandidateWeights::ForDrafts().At(1));
  weights.Update(1, {Terms(-1), Terms(-2)}, 0);
  EXPECT_GT(weights.At(1)[kDraftTerm], 1);
}

}  // namespace
}  // namespace bastion
