// A drafter with a draft vocabulary drafts what the whole drafter drafts, without the other tokens.
#include "drafter_service/draft/draft_vocabulary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "common/prior/transition_file.h"
#include "drafter_service/engine/drafter_engine.h"
#include "engine/program/local_device.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"

namespace bastion::drafter {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TransitionTable TableWith(std::vector<uint32_t> occurrences) {
  TransitionTable::Columns columns;
  columns.vocabulary = static_cast<int>(occurrences.size());
  columns.totals.assign(occurrences.size(), 0);
  columns.offsets.assign(occurrences.size() + 1, 0);
  columns.occurrences = std::move(occurrences);
  auto table = TransitionTable::Make(std::move(columns));
  EXPECT_TRUE(table.ok()) << table.status();
  return *std::move(table);
}

TEST(FrequentTokensTest, AscendAndTiesGoToTheLowestId) {
  const TransitionTable table = TableWith({3, 9, 0, 9, 3, 3, 4'000'000'000});
  EXPECT_THAT(FrequentTokens(table, 0, {}), IsEmpty());
  EXPECT_THAT(FrequentTokens(table, 1, {}), ElementsAre(6));
  EXPECT_THAT(FrequentTokens(table, 2, {}), ElementsAre(1, 6));
  EXPECT_THAT(FrequentTokens(table, 4, {}), ElementsAre(0, 1, 3, 6));
  EXPECT_THAT(FrequentTokens(table, 5, {}), ElementsAre(0, 1, 3, 4, 6));
  EXPECT_THAT(FrequentTokens(table, 100, {}), ElementsAre(0, 1, 2, 3, 4, 5, 6));
}

TEST(FrequentTokensTest, TokensThatMustBeThereAreAmongTheCount) {
  const TransitionTable table = TableWith({3, 9, 0, 9, 3, 3, 7});
  EXPECT_THAT(FrequentTokens(table, 3, {2, 2, 1}), ElementsAre(1, 2, 3));
  EXPECT_THAT(FrequentTokens(table, 1, {2, 5}), ElementsAre(2, 5));
}

// Every row is a function of its position. (drafter_engine_test.cc counts the reads.)
class WaveFeatures final : public FeatureSource {
 public:
  absl::StatusOr<Features> Read(const FeatureRange& range, absl::Duration) override {
    Features features;
    features.width = width;
    features.bytes.resize(range.count * features.row_bytes());
    for (int i = 0; i < range.count * features.width; ++i) {
      const float value = std::sin(static_cast<float>(range.first * features.width + i));
      std::memcpy(features.bytes.data() + sizeof value * i, &value, sizeof value);
    }
    return features;
  }
  int width = 0;
};

struct VocabularyCase {
  std::string golden;
  std::string drafter;  // Folder in the golden. "target": an autoregressive drafter.
};

class DraftVocabularyTest : public ::testing::TestWithParam<VocabularyCase> {
 protected:
  void SetUp() override {
    auto device = nn::OpenLocalDevice(2);
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
    const std::string pair = testing::GoldenFolder(GetParam().golden);
    std::filesystem::copy(pair + "/" + GetParam().drafter, folder_.path(),
                          std::filesystem::copy_options::recursive);
    const auto config = hub::ReadModelConfig(target());
    ASSERT_TRUE(config.ok()) << config.status();
    vocabulary_ = config->dims.vocabulary;
    hidden_ = config->dims.hidden;
    std::vector<uint32_t> occurrences(vocabulary_);
    for (int x = 0; x < vocabulary_; ++x) occurrences[x] = 37 * x % 101;
    const std::string file = folder_.File(hub::kTransitionFileName);
    ASSERT_TRUE(hub::WriteTransitionTable(TableWith(std::move(occurrences)), file).ok());
  }
  [[nodiscard]] std::string target() const {
    return testing::GoldenFolder(GetParam().golden) + "/target";
  }
  absl::StatusOr<std::unique_ptr<DrafterEngine>> MakeEngine(
      int draft_vocabulary, WeightFormat weights = WeightFormat::kF32) {
    DrafterOptions options;
    options.drafter_folder = folder_.path();
    options.target_folder = target();
    options.engine = {nn::FormatsFor(weights), device_.device, /*kv_tokens=*/1024};
    options.draft_vocabulary = draft_vocabulary;
    auto engine = DrafterEngine::Create(options, &features_);
    if (engine.ok()) {
      features_.width = static_cast<int>((*engine)->feature_layers().size()) * hidden_;
    }
    return engine;
  }
  // The candidates of the first node of a text.
  [[nodiscard]] Marginals Expand(DrafterEngine& engine, bool coupled) const {
    Frontier frontier;
    frontier.sequence = {1, 0};
    frontier.committed = 20;
    frontier.root = 3;
    frontier.candidates = vocabulary_;
    frontier.coupled = coupled;
    frontier.sampling = {0.7f, /*seed=*/11};
    for (Position i = 0; i < frontier.committed; ++i) frontier.new_tokens.push_back(37 * i % 150);
    const auto drafts = engine.Expand({frontier});
    EXPECT_TRUE(drafts.ok()) << drafts.status();
    EXPECT_TRUE(drafts->at(0).status.ok()) << drafts->at(0).status;
    return drafts->at(0).marginals.at(0);
  }

  const testing::TempFolder folder_;
  nn::LocalDevice device_;
  WaveFeatures features_;
  int vocabulary_ = 0, hidden_ = 0;
};

TEST_P(DraftVocabularyTest, AllTokensChangeNothing) {
  const auto whole = MakeEngine(0), all = MakeEngine(vocabulary_);
  ASSERT_TRUE(whole.ok() && all.ok()) << whole.status() << all.status();
  EXPECT_EQ(Expand(**all, false), Expand(**whole, false));
}

TEST_P(DraftVocabularyTest, CandidatesAreThoseOfTheWholeDrafterAmongTheTokens) {
  for (const int count : {1, 33, 100, vocabulary_ - 1}) {
    const auto tokens = ReadDraftVocabulary(folder_.path(), target(), count);
    ASSERT_TRUE(tokens.ok()) << tokens.status();
    for (const WeightFormat weights : {WeightFormat::kF32, WeightFormat::kBF16}) {
      const auto whole = MakeEngine(0, weights), small = MakeEngine(count, weights);
      ASSERT_TRUE(whole.ok() && small.ok()) << whole.status() << small.status();
      for (const bool coupled : {false, true}) {
        const Marginals expected = Expand(**whole, coupled), actual = Expand(**small, coupled);
        EXPECT_TRUE(actual.Validate(vocabulary_).ok()) << actual.Validate(vocabulary_);
        ASSERT_EQ(actual.candidates, static_cast<int>((*tokens)->size()));
        ASSERT_EQ(actual.positions, expected.positions);
        for (int p = 0; p < actual.positions; ++p) {
          std::vector<std::pair<TokenId, double>> kept;
          double sum = 0;
          for (int k = 0; k < expected.candidates; ++k) {
            const TokenId token = expected.token(p, k);
            if (!std::binary_search((*tokens)->begin(), (*tokens)->end(), token)) continue;
            kept.emplace_back(token, expected.log_prob(p, k));
            sum += std::exp(double{expected.log_prob(p, k)});
          }
          ASSERT_EQ(kept.size(), (*tokens)->size());
          for (int k = 0; k < actual.candidates; ++k) {
            ASSERT_EQ(actual.token(p, k), kept[k].first) << count << ": " << p << ", " << k;
            ASSERT_NEAR(actual.log_prob(p, k), kept[k].second - std::log(sum), 1e-3);
          }
        }
      }
    }
  }
}

TEST_P(DraftVocabularyTest, AForwardReadsFewerBytes) {
  const auto whole = MakeEngine(0), small = MakeEngine(64);
  ASSERT_TRUE(whole.ok() && small.ok()) << whole.status() << small.status();
  EXPECT_LT((*small)->cost().weight_bytes, (*whole)->cost().weight_bytes);
}

TEST_P(DraftVocabularyTest, AWrongNumberOrAMissingTableIsAnError) {
  const auto negative = MakeEngine(-1);
  EXPECT_TRUE(absl::IsInvalidArgument(negative.status())) << negative.status();
  EXPECT_THAT(negative.status().message(), HasSubstr("--draft_vocabulary is -1"));
  std::filesystem::remove(folder_.File(hub::kTransitionFileName));
  const auto missing = MakeEngine(64);
  EXPECT_TRUE(absl::IsNotFound(missing.status())) << missing.status();
  EXPECT_THAT(missing.status().message(), HasSubstr("bastion-train prior"));
  EXPECT_TRUE(MakeEngine(0).ok());
}

INSTANTIATE_TEST_SUITE_P(Pairs, DraftVocabularyTest,
                         ::testing::Values(VocabularyCase{"gqa2_untied_draft2", "drafter"},
                                           VocabularyCase{"gqa2_untied_draft2", "target"},
                                           VocabularyCase{"gqa1_tied_draft1", "drafter"},
                                           VocabularyCase{"gqa1_tied_draft1", "target"},
                                           VocabularyCase{"peagle_one_layer", "drafter"},
                                           VocabularyCase{"medusa_shared_blocks", "drafter"},
                                           VocabularyCase{"medusa_target_head", "drafter"}),
                         [](const auto& info) {
                           return info.param.golden + "_" + info.param.drafter;
                         });

}  // namespace
}  // namespace bastion::drafter
