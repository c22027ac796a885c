#include "orchestrator/prior/evidence_weights.h"

#include <cmath>
#include <limits>
#include <random>

#include "gtest/gtest.h"

namespace bastion {
namespace {

constexpr int kGain = kFirstGainTerm + static_cast<int>(EvidenceSource::kTableOne);
constexpr int kOtherGain = kFirstGainTerm + static_cast<int>(EvidenceSource::kRequestTwo);

EvidenceTerms Terms(float draft, float gain = 0, float other_gain = 0) {
  EvidenceTerms terms{};
  terms[kDraftTerm] = draft;
  terms[kGain] = gain;
  terms[kOtherGain] = other_gain;
  return terms;
}

// Eight candidates of a random draft, each with gains of two sources at times.
std::vector<EvidenceTerms> RandomCandidates(std::mt19937& random) {
  std::uniform_real_distribution<float> log_prob(-6, 0), gain(0, 6);
  std::vector<EvidenceTerms> candidates;
  for (int i = 0; i < 8; ++i) {
    candidates.push_back(
        Terms(log_prob(random), random() % 3 ? 0 : gain(random), random() % 3 ? 0 : gain(random)));
  }
  return candidates;
}

// One of them by softmax(truth · t).
size_t Pick(const std::vector<EvidenceTerms>& candidates, const EvidenceTerms& truth,
            std::mt19937& random) {
  std::vector<double> masses;
  for (const EvidenceTerms& terms : candidates) {
    masses.push_back(std::exp(EvidenceWeights::Score(truth, terms)));
  }
  return std::discrete_distribution<size_t>(masses.begin(), masses.end())(random);
}

EvidenceWeights Taught(EvidenceWeights weights, const EvidenceTerms& truth, int steps) {
  std::mt19937 random(7);
  for (int step = 0; step < steps; ++step) {
    const auto candidates = RandomCandidates(random);
    weights.Learn(2, candidates, Pick(candidates, truth, random));
  }
  return weights;
}

TEST(EvidenceWeightsTest, StartsAsTheDraftSaysAndWithCautionAboutThePrior) {
  const EvidenceWeights weights = EvidenceWeights::OfDrafts();
  EXPECT_EQ(weights.At(1)[kDraftTerm], 1);
  EXPECT_LT(weights.At(1)[kGain], weights.At(2)[kGain]);
  EXPECT_EQ(weights.At(EvidenceWeights::kMaxDepth), weights.At(100));
  EXPECT_EQ(EvidenceWeights::OfPriorAlone().At(1)[kGain], 1);
}

TEST(EvidenceWeightsTest, OneStepByHand) {
  // Two candidates of equal weight but for the draft's term.
  const std::vector<EvidenceTerms> candidates = {Terms(std::log(0.5f)), Terms(std::log(0.25f))};
  EvidenceWeights weights = EvidenceWeights::OfDrafts();
  weights.Learn(1, candidates, 0);
  // Under (2/3, 1/3) of scores (ln 1/2, ln 1/4): mean ln 1/2 − ln2/3, variance 2/9 ln²2.
  const double ln2 = std::log(2.0);
  const double expected = 1 + (ln2 / 3) / (2.0 / 9 * ln2 * ln2 + EvidenceWeights::kPriorCurvature);
  EXPECT_NEAR(weights.At(1)[kDraftTerm], expected, 1e-5);
  EXPECT_EQ(weights.At(1)[kGain], EvidenceWeights::OfDrafts().At(1)[kGain]);
  EXPECT_EQ(weights.At(2), EvidenceWeights::OfDrafts().At(2));
}

TEST(EvidenceWeightsTest, FindsTheTruth) {
  EvidenceTerms truth = Terms(1.5f, 0.3f, 0.9f);
  const EvidenceWeights weights = Taught(EvidenceWeights::OfDrafts(), truth, 4000);
  EXPECT_NEAR(weights.At(2)[kDraftTerm], 1.5, 0.3);
  EXPECT_NEAR(weights.At(2)[kGain], 0.3, 0.15);
  EXPECT_NEAR(weights.At(2)[kOtherGain], 0.9, 0.2);
}

TEST(EvidenceWeightsTest, EvidenceThatMisleadsIsTurnedDownToZero) {
  const EvidenceTerms truth = Terms(1, -0.5f, 0);
  const EvidenceWeights weights = Taught(EvidenceWeights::OfDrafts(), truth, 1000);
  EXPECT_EQ(weights.At(2)[kGain], 0);
  EXPECT_LT(weights.At(2)[kOtherGain], 0.15);
}

TEST(EvidenceWeightsTest, FollowsWhenTheTruthChanges) {
  EvidenceWeights weights = Taught(EvidenceWeights::OfDrafts(), Terms(1, 1, 0), 3000);
  EXPECT_GT(weights.At(2)[kGain], 0.7);
  weights = Taught(weights, Terms(1, 0, 1), 3000);
  EXPECT_LT(weights.At(2)[kGain], 0.2);
  EXPECT_GT(weights.At(2)[kOtherGain], 0.7);
}

TEST(EvidenceWeightsTest, StaysWithinItsBoundsWhateverHappens) {
  std::mt19937 random(3);
  EvidenceWeights weights = EvidenceWeights::OfPriorAlone();
  for (int step = 0; step < 2000; ++step) {
    auto candidates = RandomCandidates(random);
    EvidenceTerms strange = Terms(-50, step % 2 ? 40 : 0, 0);
    strange[kOutsideTerm] = 1;
    candidates.push_back(strange);
    weights.Learn(1 + step % 20, candidates, candidates.size() - 1);
  }
  for (int depth = 1; depth <= 20; ++depth) {
    const EvidenceTerms& at = weights.At(depth);
    EXPECT_GE(at[kDraftTerm], EvidenceWeights::kLeastDraft);
    EXPECT_LE(at[kDraftTerm], EvidenceWeights::kMostDraft);
    EXPECT_LE(at[kOutsideTerm], EvidenceWeights::kMostOutside);
    EXPECT_GE(at[kGain], 0);
    EXPECT_LE(at[kGain], EvidenceWeights::kMostGain);
  }
}

TEST(EvidenceWeightsTest, WhatIsNotFiniteTeachesNothing) {
  const float infinity = std::numeric_limits<float>::infinity();
  EvidenceWeights weights = EvidenceWeights::OfDrafts();
  weights.Learn(1, {Terms(-infinity), Terms(-infinity)}, 0);
  weights.Learn(1, {Terms(-1, infinity), Terms(-1)}, 1);
  EXPECT_EQ(weights.At(1), EvidenceWeights::OfDrafts().At(1));
  weights.Learn(1, {Terms(-1), Terms(-2)}, 0);
  EXPECT_GT(weights.At(1)[kDraftTerm], 1);
}

}  // namespace
}  // namespace bastion
