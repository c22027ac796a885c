// Compares DFlash 2 drafters with a simple implementation (dflash2_goldens.py), in fp32 on tiny
// random checkpoints: probabilities and pair scores over three cycles, on the CPU and on a GPU.
// Compares drafts of one drafter with each other, bit for bit.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <tuple>
#include <utility>

#include "tests/parity/dflash2_fixture.h"

namespace bastion {
namespace {

class Dflash2ParityTest : public testing::Dflash2Fixture,
                          public ::testing::WithParamInterface<std::string> {
 protected:
  static constexpr float kNear = 1e-4f;
  static constexpr int kMany = 64;  // More candidates than the selectors were trained for.

  void SetUp() override { UseGolden(GetParam()); }

  void ExpectReference(int draft, const Marginals& actual) const {
    const std::string round = "_" + std::to_string(draft);
    const std::vector<float> logits = golden_->Floats("marginal_logits" + round);
    const std::vector<TokenId> tokens = golden_->Integers("pair_tokens" + round);
    const std::vector<float> scores = golden_->Floats("pair_scores" + round);
    ASSERT_TRUE(actual.Validate(model_->config().dims.vocabulary).ok());
    ASSERT_EQ(actual.tokens, tokens);
    const size_t vocabulary = logits.size() / actual.positions;
    for (int p = 0; p < actual.positions; ++p) {
      const float* const row = logits.data() + p * vocabulary;
      double sum = 0;
      for (size_t t = 0; t < vocabulary; ++t) sum += std::exp(double{row[t]});
      for (int r = 0; r < actual.candidates; ++r) {
        ASSERT_NEAR(actual.log_prob(p, r), row[actual.token(p, r)] - std::log(sum), kNear);
      }
    }
    ASSERT_EQ(actual.pair_scores.size(), scores.size());
    for (size_t i = 0; i < scores.size(); ++i) {
      ASSERT_NEAR(actual.pair_scores[i], scores[i], kNear) << "pair score " << i;
    }
  }

  void ExpectAllDrafts() {
    testing::DraftedSequence sequence;
    for (int draft = 0; draft < draft_count(); ++draft) {
      SCOPED_TRACE(draft);
      Advance(draft, sequence);
      ExpectReference(draft, Draft({sequence.Block()}, kMany)[0]);
    }
  }

  // The scores of a draft by position, predecessor and token.
  using PairKey = std::tuple<int, TokenId, TokenId>;
  static std::map<PairKey, float> PairsOf(const Marginals& marginals) {
    std::map<PairKey, float> pairs;
    for (int p = 0; p < marginals.positions; ++p) {
      for (int a = 0; a < (p == 0 ? 1 : marginals.candidates); ++a) {
        const TokenId before = p == 0 ? -1 : marginals.token(p - 1, a);
        for (int b = 0; b < marginals.candidates; ++b) {
          pairs[{p, before, marginals.token(p, b)}] = marginals.pair_row(p, a)[b];
        }
      }
    }
    return pairs;
  }
};

TEST_P(Dflash2ParityTest, DraftsMatchTheReferenceOnTheCpu) {
  Load();
  ExpectAllDrafts();
}

TEST_P(Dflash2ParityTest, DraftsMatchTheReferenceOnAGpu) {
  LoadOnGpu();
  if (model_ != nullptr) ExpectAllDrafts();
}

TEST_P(Dflash2ParityTest, FewerCandidatesAreTheFirstOfMore) {
  Load();
  const Marginals many = DraftOf(1, kMany), few = DraftOf(1, 3);
  ASSERT_EQ(few.candidates, 3);
  for (int p = 0; p < few.positions; ++p) {
    for (int a = 0; a < 3; ++a) {
      EXPECT_EQ(few.token(p, a), many.token(p, a));
      EXPECT_EQ(few.log_prob(p, a), many.log_prob(p, a));
      EXPECT_EQ(few.pair_row(p, a), many.pair_row(p, a).first(3));
    }
  }
}

// Blocks of sequences with contexts of different lengths.
TEST_P(Dflash2ParityTest, BlocksOfABatchHaveTheBitsOfBlocksAlone) {
  Load();
  std::vector<testing::DraftedSequence> sequences(3);
  for (int i = 0; i < 3; ++i) {
    for (int draft = 0; draft <= i; ++draft) Advance(draft, sequences[i]);
  }
  std::vector<drafter::BlockItem> blocks;
  std::vector<Marginals> alone;
  for (testing::DraftedSequence& sequence : sequences) {
    blocks.push_back(sequence.Block());
    alone.push_back(Draft({blocks.back()}, kMany)[0]);
  }
  EXPECT_EQ(Draft(blocks, kMany), alone);
  EXPECT_NE(alone[0].pair_scores, alone[1].pair_scores);
  std::swap(blocks[0], blocks[2]);
  std::swap(alone[0], alone[2]);
  EXPECT_EQ(Draft(blocks, kMany), alone);
}

TEST_P(Dflash2ParityTest, CoupledScoresAreDividedByTheTemperature) {
  Load();
  constexpr float kTemperature = 0.25f;
  testing::DraftedSequence sequence;
  Advance(0, sequence);
  drafter::BlockItem block = sequence.Block();
  const auto plain = PairsOf(Draft({block}, kMany)[0]);
  block.coupling = ChoiceParams{kTemperature, 7};
  const Marginals coupled = Draft({block}, kMany)[0];
  ASSERT_TRUE(coupled.Validate(model_->config().dims.vocabulary).ok());
  int common = 0;
  for (const auto& [pair, score] : PairsOf(coupled)) {
    const auto found = plain.find(pair);
    if (found == plain.end()) continue;
    ++common;
    EXPECT_EQ(score, found->second / kTemperature);
  }
  EXPECT_GT(common, coupled.positions);
}

// The codebooks have rows for all tokens, also if the head has rows for some.
TEST_P(Dflash2ParityTest, ADraftVocabularyKeepsThePairScores) {
  Load();
  const auto all = PairsOf(DraftOf(2, kMany));
  auto kept = std::make_shared<std::vector<TokenId>>();
  for (TokenId t = 1; t < model_->config().dims.vocabulary; t += 2) kept->push_back(t);
  options_.head_tokens = kept;
  Load();
  const Marginals drafted = DraftOf(2, kMany);
  int common = 0;
  for (const auto& [pair, score] : PairsOf(drafted)) {
    EXPECT_EQ(std::get<2>(pair) % 2, 1);
    const auto found = all.find(pair);
    if (found == all.end()) continue;
    ++common;
    EXPECT_EQ(score, found->second);
  }
  EXPECT_GT(common, drafted.positions);
}

TEST_P(Dflash2ParityTest, RoundedWeightsLeaveTheSelectorUnrounded) {
  options_.formats = nn::FormatsFor(WeightFormat::kInt8);
  nn::PackingPlan plan;
  const auto weights =
      drafter::LoadDflashWeights(folder_ + "/drafter", folder_ + "/target", options_, plan);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->pair_projection.format, WeightFormat::kBF16);
  EXPECT_EQ(weights->vocabulary.head.format, WeightFormat::kInt8);
}

TEST_P(Dflash2ParityTest, FeaturesThatAreNotFiniteAreAnError) {
  Load();
  testing::DraftedSequence sequence;
  Features rows = {model_->feature_width(), DType::kF32, {}};
  const std::vector<float> values(model_->feature_width(), std::numeric_limits<float>::quiet_NaN());
  rows.bytes.assign(reinterpret_cast<const char*>(values.data()), rows.row_bytes());
  ASSERT_TRUE(model_->AppendContext({{&sequence.table, 0, rows}}).ok());
  sequence.cached = 1;
  const absl::Status status = model_->Draft({sequence.Block()}, kMany).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << status;
}

INSTANTIATE_TEST_SUITE_P(Goldens, Dflash2ParityTest,
                         ::testing::Values("dflash2_window", "dflash2_scales",
                                           "dflash2_speculators"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace bastion
