#include "drafter_service/replay/replayed_engine.h"

#include <cmath>
#include <random>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/drafter_service/replay/stub_engine.h"

namespace bastion::drafter {
namespace {

using ::testing::HasSubstr;

constexpr int kPositions = 4;
constexpr SequenceId kSequence = {1, 0};

AcceptanceProfile RandomProfile(int blocks) {
  std::mt19937 random(1);
  AcceptanceProfile profile = {"paper", "made up", {}};
  for (int b = 0; b < blocks; ++b) {
    ProfiledBlock& block = profile.blocks.emplace_back();
    for (int p = 0; p < kPositions; ++p) {
      block.top.push_back(0.05F + 0.9F * static_cast<float>(random() % 1000) / 1000);
      block.ranks.push_back(static_cast<int>(random() % 4) - 1);
    }
  }
  return profile;
}

std::vector<TokenId> RandomText(int tokens) {
  std::mt19937 random(2);
  std::vector<TokenId> text(tokens);
  for (TokenId& token : text) token = static_cast<TokenId>(random() % StubEngine::kVocabulary);
  return text;
}

// What an orchestrator sends after `committed` tokens of `text`. It sent the first `sent` before.
Frontier FrontierAt(const std::vector<TokenId>& text, Position committed, Position sent) {
  Frontier frontier;
  frontier.sequence = kSequence;
  frontier.committed = committed;
  frontier.root = text[committed];
  frontier.new_tokens = {text.begin() + sent, text.begin() + committed};
  frontier.candidates = 8;
  return frontier;
}

Marginals DraftOf(DrafterEngine& engine, const Frontier& frontier, size_t path = 0) {
  const auto drafts = engine.Expand({&frontier, 1});
  EXPECT_TRUE(drafts.ok() && drafts->at(0).status.ok());
  const Marginals& marginals = drafts->at(0).marginals.at(path);
  EXPECT_TRUE(marginals.Validate(StubEngine::kVocabulary).ok());
  return marginals;
}

TEST(ReplayedEngineTest, AChainCommitsWhatTheProfileSays) {
  const AcceptanceProfile profile = RandomProfile(50);
  double expected = 0;
  for (const ProfiledBlock& block : profile.blocks) {
    int accepted = 0;
    while (accepted < kPositions && block.ranks[accepted] == 0) ++accepted;
    expected += (1.0 + accepted) / 50;
  }
  const std::vector<TokenId> text = RandomText(4000);
  KnownTexts texts;
  texts.Add(text);
  ReplayedEngine engine(StubEngine::Make(kPositions), profile, &texts);
  Position committed = 30, sent = 0;
  int cycles = 0;
  for (; cycles < 500; ++cycles) {  // Every block ten times.
    const Marginals marginals = DraftOf(engine, FrontierAt(text, committed, sent));
    sent = committed;
    int accepted = 0;
    while (accepted < kPositions &&
           marginals.token(accepted, 0) == text[committed + 1 + accepted]) {
      ++accepted;
    }
    committed += 1 + accepted;
  }
  EXPECT_NEAR(static_cast<double>(committed - 30) / cycles, expected, 1e-9);
}

TEST(ReplayedEngineTest, TheTargetsTokenHasItsRankAndTheCandidatesTheirProbabilities) {
  AcceptanceProfile profile = {"paper", "", {{{0.5F, 0.9F, 0.5F, 0.5F}, {2, 0, -1, 1}}}};
  const std::vector<TokenId> text = RandomText(40);
  KnownTexts texts;
  texts.Add(text);
  ReplayedEngine engine(StubEngine::Make(kPositions), profile, &texts);
  const Marginals marginals = DraftOf(engine, FrontierAt(text, 20, 0));
  EXPECT_EQ(marginals.token(0, 2), text[21]);
  EXPECT_EQ(marginals.token(1, 0), text[22]);
  EXPECT_EQ(marginals.token(3, 1), text[24]);
  for (int rank = 0; rank < 8; ++rank) {
    EXPECT_NE(marginals.token(2, rank), text[23]);
    EXPECT_NEAR(std::exp(marginals.log_prob(0, rank)), std::pow(0.5, rank + 1), 1e-6);
    EXPECT_NEAR(std::exp(marginals.log_prob(1, rank)), 0.9 * std::pow(0.1, rank), 1e-6);
  }
}

TEST(ReplayedEngineTest, AllRoundsOfACycleHaveTheSameBlock) {
  const std::vector<TokenId> text = RandomText(100);
  KnownTexts texts;
  texts.Add(text);
  // In every block, the first candidate is right at depth 1 only, and never in the other one.
  const AcceptanceProfile profile = {
      "paper", "", {{{0.5F, 0.5F}, {0, 1}}, {{0.25F, 0.25F}, {1, 0}}}};
  ReplayedEngine engine(StubEngine::Make(/*positions=*/1), profile, &texts);
  for (Position committed = 20; committed < 40; ++committed) {
    Frontier frontier = FrontierAt(text, committed, committed == 20 ? 0 : committed - 1);
    const Marginals root = DraftOf(engine, frontier);
    const bool first = root.log_prob(0, 0) > -1;
    EXPECT_EQ(root.token(0, first ? 0 : 1), text[committed + 1]);
    frontier.new_tokens.clear();
    frontier.paths = {{text[committed + 1]}, {text[committed + 1] == 0 ? 1 : 0}};
    const Marginals on_path = DraftOf(engine, frontier, 0);
    EXPECT_EQ(on_path.token(0, first ? 1 : 0), text[committed + 2]);
    EXPECT_EQ(on_path.log_prob(0, 0), root.log_prob(0, 0));
    const Marginals off_path = DraftOf(engine, frontier, 1);
    EXPECT_EQ(off_path.log_prob(0, 0), root.log_prob(0, 0));
    EXPECT_NE(off_path.tokens, on_path.tokens);
  }
}

TEST(ReplayedEngineTest, NothingIsPredictedBeyondTheProfile) {
  const std::vector<TokenId> text = RandomText(40);
  KnownTexts texts;
  texts.Add(text);
  const AcceptanceProfile two = {"paper", "", {{{0.5F, 0.5F}, {0, 0}}}};
  ReplayedEngine blocks(StubEngine::Make(kPositions), two, &texts);
  EXPECT_EQ(DraftOf(blocks, FrontierAt(text, 20, 0)).positions, 2);
  ReplayedEngine nodes(StubEngine::Make(/*positions=*/1), two, &texts);
  Frontier frontier = FrontierAt(text, 20, 0);
  frontier.paths = {{text[21]}, {text[21], text[22]}};
  EXPECT_EQ(DraftOf(nodes, frontier, 0).token(0, 0), text[22]);
  EXPECT_TRUE(DraftOf(nodes, frontier, 1).empty());
}

TEST(ReplayedEngineTest, UnknownTextsAndTheirEndsHaveOnlyWrongCandidates) {
  const std::vector<TokenId> text = RandomText(40);
  KnownTexts texts;
  texts.Add({text.begin(), text.begin() + 22});
  ReplayedEngine engine(StubEngine::Make(kPositions), {"paper", "", {{{0.5F, 0.5F}, {0, 0}}}},
                        &texts);
  const Marginals end = DraftOf(engine, FrontierAt(text, 20, 0));
  EXPECT_EQ(end.token(0, 0), text[21]);
  EXPECT_EQ(end.positions, 2);
  texts.Clear();
  EXPECT_EQ(DraftOf(engine, FrontierAt(text, 20, 20)).candidates, 8);
}

TEST(ReplayedEngineTest, WhatTheDrafterDoesNotPredictStaysEmpty) {
  const std::vector<TokenId> text = RandomText(40);
  KnownTexts texts;
  texts.Add(text);
  ReplayedEngine engine(StubEngine::Make(kPositions), {"paper", "", {{{0.5F}, {0}}}}, &texts);
  Frontier frontier = FrontierAt(text, 20, 0);
  frontier.paths = {{}, {1}};
  EXPECT_TRUE(DraftOf(engine, frontier, 1).empty());
}

TEST(ReplayedEngineTest, ItsNameSaysThatAcceptanceIsReplayed) {
  const KnownTexts texts;
  ReplayedEngine engine(StubEngine::Make(kPositions), {"paper", "", {{{0.5F}, {0}}}}, &texts);
  EXPECT_EQ(engine.info().model, "stub+paper");
  EXPECT_TRUE(engine.info().wants_tokens);
}

TEST(ReplayedEngineTest, SequencesAreForgottenWhenTheyClose) {
  const std::vector<TokenId> text = RandomText(40), other = RandomText(35);
  KnownTexts texts;
  texts.Add(text);
  ReplayedEngine engine(StubEngine::Make(kPositions), {"paper", "", {{{0.5F}, {0}}}}, &texts);
  EXPECT_EQ(DraftOf(engine, FrontierAt(text, 20, 0)).token(0, 0), text[21]);
  engine.Close(kSequence);
  EXPECT_EQ(engine.live_sequences(), 0);
  EXPECT_EQ(DraftOf(engine, FrontierAt(text, 25, 0)).token(0, 0), text[26]);
}

}  // namespace
}  // namespace bastion::drafter
