// Sequences that lack much context catch up in pieces between the calls of Expand. No other
// sequence waits for them, and afterwards their drafts are those of a drafter that read everything
// at once.
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <vector>

#include "absl/time/clock.h"
#include "drafter_service/engine/draft_sequences.h"
#include "drafter_service/engine/drafter_engine.h"
#include "engine/program/local_device.h"
#include "gtest/gtest.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"

namespace bastion::drafter {
namespace {

constexpr SequenceId kLong = {1, 0}, kShort = {2, 0};
constexpr int kLongPrompt = 1500, kShortPrompt = 40;
constexpr int kTokens = 160;  // All vocabularies have them.

// Every row is a function of its position. Counts the rows that were read.
class LateFeatures final : public FeatureSource {
 public:
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration timeout) override {
    timeouts.push_back(timeout);
    if (absl::IsDeadlineExceeded(error)) absl::SleepFor(timeout + absl::Milliseconds(5));
    if (!error.ok()) return error;
    rows += range.count;
    Features features;
    features.width = 3 * 32;
    for (int i = 0; i < range.count * features.width; ++i) {
      const float value = std::sin(static_cast<float>(range.first * features.width + i));
      features.bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
    }
    return features;
  }

  int rows = 0;
  absl::Status error;
  std::vector<absl::Duration> timeouts;  // One per read.
};

std::string ReadText(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

enum class Kind { kBlock, kAutoregressive, kEagle, kSpecBlock, kParallelEagle };

std::string NameOf(const ::testing::TestParamInfo<Kind>& info) {
  constexpr const char* kNames[] = {"Block", "Autoregressive", "Eagle", "SpecBlock",
                                    "ParallelEagle"};
  return kNames[static_cast<int>(info.param)];
}

// The golden pair with such a drafter. Its features have width 3 · 32.
std::string PairOf(Kind kind) {
  switch (kind) {
    case Kind::kBlock:
    case Kind::kAutoregressive:
      return "gqa2_untied_draft2";
    case Kind::kEagle:
      return "eagle3_specforge";
    case Kind::kSpecBlock:
      return "specblock_shift";
    case Kind::kParallelEagle:
      return "peagle_speculators";
  }
  return "";
}

class CatchUpTest : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    auto device = nn::OpenLocalDevice(2);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    // A pair that supports long contexts.
    const std::string pair = testing::GoldenFolder(PairOf(GetParam()));
    for (const std::string part : {"target", "drafter"}) {
      std::filesystem::copy(pair + "/" + part, folder_.File(part));
      const std::string path = folder_.File(part) + "/config.json";
      std::string config = ReadText(path);
      const std::regex limit("\"max_position_embeddings\": [0-9]+");
      ASSERT_TRUE(std::regex_search(config, limit));
      config = std::regex_replace(config, limit, "\"max_position_embeddings\": 4096");
      std::filesystem::remove(path);
      std::ofstream(path) << config;
    }
    engine_ = MakeEngine(/*defer_catch_up=*/true, features_);
    at_once_ = MakeEngine(/*defer_catch_up=*/false, other_features_);
  }
  std::unique_ptr<DrafterEngine> MakeEngine(bool defer_catch_up, FeatureSource& features,
                                            int kv_tokens = 8192) {
    DrafterOptions options;
    options.target_folder = folder_.File("target");
    options.drafter_folder =
        folder_.File(GetParam() == Kind::kAutoregressive ? "target" : "drafter");
    options.engine = {nn::FormatsFor(WeightFormat::kF32), device_.device, kv_tokens};
    options.defer_catch_up = defer_catch_up;
    auto engine = DrafterEngine::Create(options, &features);
    EXPECT_TRUE(engine.ok()) << engine.status();
    return *std::move(engine);
  }
  static Frontier FrontierOf(SequenceId sequence, Position committed) {
    Frontier frontier;
    frontier.sequence = sequence;
    frontier.committed = committed;
    frontier.root = 3;
    frontier.candidates = 8;
    frontier.cache_salt = std::to_string(sequence.session);  // Nothing is reused.
    for (Position i = 0; i < committed; ++i) frontier.new_tokens.push_back(37 * i % kTokens);
    return frontier;
  }
  // The draft of each frontier. Empty: no draft.
  static std::vector<Marginals> Expand(DrafterEngine& engine,
                                       const std::vector<Frontier>& frontiers) {
    const auto drafts = engine.Expand(frontiers);
    EXPECT_TRUE(drafts.ok()) << drafts.status();
    std::vector<Marginals> marginals;
    for (const Draft& draft : *drafts) {
      EXPECT_TRUE(draft.status.ok()) << draft.status;
      marginals.push_back(draft.marginals.at(0));
    }
    return marginals;
  }
  // The frontiers that get a draft, once all sequences have caught up that can.
  std::vector<Frontier> Drafted(const std::vector<Frontier>& frontiers) {
    (void)Expand(*engine_, frontiers);
    while (engine_->has_piece()) (void)AppendPiece();
    const auto drafts = Expand(*engine_, frontiers);
    std::vector<Frontier> drafted;
    for (size_t i = 0; i < drafts.size(); ++i) {
      if (!drafts[i].empty()) drafted.push_back(frontiers[i]);
    }
    return drafted;
  }
  // Adds one piece. Returns its rows.
  int AppendPiece() {
    const FeatureRange piece = engine_->NextPiece();
    EXPECT_TRUE(engine_->AppendPiece(piece, engine_->ReadPiece(piece)));
    return piece.count;
  }

  const testing::TempFolder folder_;
  nn::LocalDevice device_;
  LateFeatures features_, other_features_;
  std::unique_ptr<DrafterEngine> engine_, at_once_;
};

TEST_P(CatchUpTest, ALongPromptGetsTheSameDraftsOnceItHasCaughtUp) {
  EXPECT_FALSE(engine_->has_piece());
  EXPECT_TRUE(Expand(*engine_, {FrontierOf(kLong, kLongPrompt)})[0].empty());
  EXPECT_EQ(engine_->last_trace().context_tokens, 0);
  EXPECT_EQ(features_.rows, 0);
  int rows = 0;
  for (Position committed = kLongPrompt; engine_->has_piece(); committed += 2) {
    const int piece = AppendPiece();
    EXPECT_LE(piece, kPieceRows);
    rows += piece;
    // The text goes on meanwhile.
    if (!engine_->has_piece()) break;
    EXPECT_TRUE(Expand(*engine_, {FrontierOf(kLong, committed)})[0].empty());
  }
  EXPECT_GE(rows, kLongPrompt);
  for (const Position committed : {kLongPrompt + 40, kLongPrompt + 43}) {
    const auto drafts = Expand(*engine_, {FrontierOf(kLong, committed)});
    EXPECT_FALSE(drafts[0].empty());
    EXPECT_EQ(drafts, Expand(*at_once_, {FrontierOf(kLong, committed)}));
  }
  EXPECT_FALSE(engine_->has_piece());
}

TEST_P(CatchUpTest, ANeighborWaitsForNoPiece) {
  const auto expected = Expand(*at_once_, {FrontierOf(kShort, kShortPrompt)});
  const auto drafts =
      Expand(*engine_, {FrontierOf(kLong, kLongPrompt), FrontierOf(kShort, kShortPrompt)});
  EXPECT_TRUE(drafts[0].empty());
  EXPECT_EQ(drafts[1], expected[0]);
  EXPECT_EQ(engine_->last_trace().context_tokens, kShortPrompt);
  for (Position committed = kShortPrompt + 3; engine_->has_piece(); committed += 3) {
    (void)AppendPiece();
    const Frontier neighbor = FrontierOf(kShort, committed);
    EXPECT_EQ(Expand(*engine_, {neighbor}), Expand(*at_once_, {neighbor}));
    EXPECT_EQ(engine_->last_trace().context_tokens, 3);
  }
}

TEST_P(CatchUpTest, PromptsThatArriveTogetherDoNotAddUp) {
  std::vector<Frontier> prompts;
  for (uint64_t session = 1; session <= 4; ++session) {
    prompts.push_back(FrontierOf({session, 0}, 300));
  }
  prompts.push_back(FrontierOf({5, 0}, kCycleRows));
  std::vector<Marginals> drafts = Expand(*engine_, prompts);
  EXPECT_FALSE(drafts[0].empty());
  EXPECT_TRUE(drafts[1].empty() && drafts[2].empty() && drafts[3].empty());
  EXPECT_FALSE(drafts[4].empty());
  // Sequences take turns.
  std::vector<uint64_t> turns;
  while (engine_->has_piece()) {
    const FeatureRange piece = engine_->NextPiece();
    turns.push_back(piece.sequence.session);
    EXPECT_TRUE(engine_->AppendPiece(piece, engine_->ReadPiece(piece)));
  }
  EXPECT_EQ(turns, (std::vector<uint64_t>{2, 3, 4, 2, 3, 4, 2, 3, 4}));
  EXPECT_EQ(Expand(*engine_, prompts), Expand(*at_once_, prompts));
}

TEST_P(CatchUpTest, PromptsThatDoNotFitTogetherDoNotHoldTheWholeCache) {
  // The cache has room for two of the prompts.
  engine_ = MakeEngine(/*defer_catch_up=*/true, features_, /*kv_tokens=*/1536);
  std::vector<Frontier> prompts;
  for (uint64_t session = 1; session <= 4; ++session) {
    prompts.push_back(FrontierOf({session, 0}, 600));
  }
  const std::vector<Frontier> drafted = Drafted(prompts);
  ASSERT_EQ(drafted.size(), 2u);
  EXPECT_EQ(Expand(*engine_, drafted), Expand(*at_once_, drafted));
  // The others take no pages while too few are free.
  EXPECT_FALSE(engine_->has_piece());
  // One of them follows when there is room.
  engine_->Close(drafted[0].sequence);
  std::erase_if(prompts,
                [&](const Frontier& prompt) { return prompt.sequence == drafted[0].sequence; });
  EXPECT_EQ(Drafted(prompts).size(), 2u);
}

TEST_P(CatchUpTest, APieceOfAClosedSequenceIsDropped) {
  (void)Expand(*engine_, {FrontierOf(kLong, kLongPrompt)});
  const FeatureRange piece = engine_->NextPiece();
  auto features = engine_->ReadPiece(piece);
  engine_->Close(kLong);
  EXPECT_FALSE(engine_->AppendPiece(piece, features));
  // The same sequence, opened again, begins again.
  (void)Expand(*engine_, {FrontierOf(kLong, kLongPrompt)});
  EXPECT_FALSE(engine_->AppendPiece(piece, features));
  engine_->Close(kLong);
  EXPECT_FALSE(engine_->has_piece());
}

TEST_P(CatchUpTest, ANegativeNumberOfTokensIsRefused) {
  Frontier frontier = FrontierOf(kShort, kShortPrompt);
  frontier.committed = -100;
  const auto refused = engine_->Expand({frontier});
  ASSERT_TRUE(refused.ok()) << refused.status();
  const Frontier valid = FrontierOf(kShort, kShortPrompt);
  EXPECT_EQ(Expand(*engine_, {valid}), Expand(*at_once_, {valid}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, CatchUpTest,
                         ::testing::Values(Kind::kBlock, Kind::kAutoregressive, Kind::kEagle,
                                           Kind::kSpecBlock, Kind::kParallelEagle),
                         NameOf);

using FeatureCatchUpTest = CatchUpTest;

TEST_P(FeatureCatchUpTest, FeaturesThatCannotBeReadAreTriedAgainAtTheNextExpand) {
  (void)Expand(*engine_, {FrontierOf(kLong, kLongPrompt)});
  features_.error = absl::UnavailableError("no stream");
  (void)AppendPiece();
  EXPECT_FALSE(engine_->has_piece());
  features_.error = absl::OkStatus();
  (void)Expand(*engine_, {FrontierOf(kLong, kLongPrompt)});
  while (engine_->has_piece()) (void)AppendPiece();
  const Frontier frontier = FrontierOf(kLong, kLongPrompt);
  EXPECT_EQ(Expand(*engine_, {frontier}), Expand(*at_once_, {frontier}));
}

TEST_P(FeatureCatchUpTest, MissingFeaturesDelayACallOnlyOnce) {
  const std::vector<Frontier> prompts = {FrontierOf({1, 0}, 40), FrontierOf({2, 0}, 40),
                                         FrontierOf({3, 0}, 40)};
  features_.error = absl::DeadlineExceededError("the features have not arrived yet");
  const auto drafts = engine_->Expand(prompts);
  ASSERT_TRUE(drafts.ok()) << drafts.status();
  for (const Draft& draft : *drafts) {
    EXPECT_EQ(draft.status, features_.error);
    EXPECT_EQ(draft.marginals, std::vector<Marginals>(1)) << "the drafter holds the sequence";
  }
  const absl::Duration whole = DrafterOptions().feature_timeout, none = absl::ZeroDuration();
  EXPECT_EQ(features_.timeouts, (std::vector<absl::Duration>{whole, none, none}));
  // The sequences get their drafts at the next call.
  features_.error = absl::OkStatus();
  EXPECT_EQ(Expand(*engine_, prompts), Expand(*at_once_, prompts));
}

TEST_P(FeatureCatchUpTest, ReadsAPieceAgainIfItsRowsWereOverwritten) {
  (void)Expand(*engine_, {FrontierOf(kLong, kLongPrompt)});
  features_.error = absl::AbortedError("the rows were overwritten");
  (void)AppendPiece();
  features_.error = absl::OkStatus();
  ASSERT_TRUE(engine_->has_piece());
  while (engine_->has_piece()) (void)AppendPiece();
  const Frontier frontier = FrontierOf(kLong, kLongPrompt);
  EXPECT_EQ(Expand(*engine_, {frontier}), Expand(*at_once_, {frontier}));
}

INSTANTIATE_TEST_SUITE_P(Kinds, FeatureCatchUpTest,
                         ::testing::Values(Kind::kBlock, Kind::kEagle, Kind::kSpecBlock,
                                           Kind::kParallelEagle),
                         NameOf);

using BlockCatchUpTest = CatchUpTest;

TEST_P(BlockCatchUpTest, DraftingAheadWaitsForNoFeatures) {
  EXPECT_FALSE(Expand(*engine_, {FrontierOf(kShort, kShortPrompt)})[0].empty());
  features_.timeouts.clear();
  engine_->FeaturesArrived(kShort, kShortPrompt + 2, /*root=*/3);
  EXPECT_EQ(features_.timeouts, std::vector<absl::Duration>{absl::ZeroDuration()});
  EXPECT_FALSE(Expand(*engine_, {FrontierOf(kShort, kShortPrompt + 2)})[0].empty());
  EXPECT_EQ(engine_->last_trace().ahead, 1);
}

TEST_P(BlockCatchUpTest, TokensThatArriveDuringAPieceDoNotMoveIt) {
  Frontier earlier = FrontierOf(kShort, kLongPrompt);
  Frontier prompt = FrontierOf(kLong, kLongPrompt);
  earlier.cache_salt = prompt.cache_salt;
  EXPECT_EQ(Drafted({earlier}).size(), 1u);
  Frontier without_tokens = prompt;
  without_tokens.new_tokens.clear();
  (void)Expand(*engine_, {without_tokens});
  const FeatureRange piece = engine_->NextPiece();
  // Now the sequence could reuse the context of the earlier one.
  (void)Expand(*engine_, {prompt});
  EXPECT_TRUE(engine_->AppendPiece(piece, engine_->ReadPiece(piece)));
  while (engine_->has_piece()) (void)AppendPiece();
  EXPECT_EQ(Expand(*engine_, {prompt}), Expand(*at_once_, {prompt}));
}

TEST_P(BlockCatchUpTest, ANeighborIsDraftedAhead) {
  (void)Expand(*engine_, {FrontierOf(kLong, kLongPrompt), FrontierOf(kShort, kShortPrompt)});
  engine_->FeaturesArrived(kShort, kShortPrompt + 2, /*root=*/3);
  const auto drafts =
      Expand(*engine_, {FrontierOf(kLong, kLongPrompt), FrontierOf(kShort, kShortPrompt + 2)});
  EXPECT_EQ(engine_->last_trace().ahead, 1);
  EXPECT_FALSE(drafts[1].empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, BlockCatchUpTest, ::testing::Values(Kind::kBlock), NameOf);

using AutoregressiveTokensTest = CatchUpTest;

TEST_P(AutoregressiveTokensTest, TokensThatAreMissingAreAskedForWithAnError) {
  Frontier gap = FrontierOf(kShort, kShortPrompt);
  gap.new_tokens.erase(gap.new_tokens.begin(), gap.new_tokens.begin() + 10);
  const auto drafts = at_once_->Expand({gap, FrontierOf(kLong, kShortPrompt)});
  ASSERT_TRUE(drafts.ok()) << drafts.status();
  EXPECT_FALSE(drafts->at(0).status.ok());
  EXPECT_TRUE(drafts->at(0).marginals.empty());
  EXPECT_TRUE(drafts->at(1).status.ok()) << drafts->at(1).status;
  EXPECT_EQ(at_once_->live_sequences(), 1);
  EXPECT_FALSE(Expand(*at_once_, {FrontierOf(kShort, kShortPrompt)})[0].empty());
}

INSTANTIATE_TEST_SUITE_P(Kinds, AutoregressiveTokensTest,
                         ::testing::Values(Kind::kAutoregressive, Kind::kEagle, Kind::kSpecBlock,
                                           Kind::kParallelEagle),
                         NameOf);

}  // namespace
}  // namespace bastion::drafter
