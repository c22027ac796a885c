#include "orchestrator/prior/learned_prior.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "orchestrator/prior/transition_prior.h"
#include "tests/support/full_disk.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::bastion::testing::TempFolder;
using ::testing::HasSubstr;

constexpr int kLearnedVocabulary = 100;

class LearnedPriorTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string Path() const { return folder_.File("learned.safetensors"); }

  TempFolder folder_;
};

TEST_F(LearnedPriorTest, OpenRestoresSavedCounts) {
  {
    auto prior = LearnedPrior::Open(Path(), kLearnedVocabulary);
    ASSERT_TRUE(prior.ok()) << prior.status();
    prior->counts()->Add({1, 2}, 3);
    ASSERT_TRUE(prior->Save().ok());
  }
  auto prior = LearnedPrior::Open(Path(), kLearnedVocabulary);
  ASSERT_TRUE(prior.ok()) << prior.status();
  EXPECT_EQ(prior->counts()->After({1, 2}).total, 1);
  EXPECT_EQ(prior->counts()->After({1, 2}).tokens[0], 3);
}

TEST_F(LearnedPriorTest, SaveIfDueSavesAfterTheInterval) {
  auto prior = LearnedPrior::Open(Path(), kLearnedVocabulary);
  ASSERT_TRUE(prior.ok()) << prior.status();
  prior->SaveIfDue(absl::Seconds(1));
  prior->counts()->Add({1}, 2);
  const auto saved = [this] {
    return LearnedPrior::Open(Path(), kLearnedVocabulary)->counts()->After({1}).total > 0;
  };
  prior->SaveIfDue(absl::Seconds(2));
  prior->WaitForSave();
  EXPECT_FALSE(saved());
  prior->SaveIfDue(absl::Seconds(2) + PeriodicSave::kInterval);
  prior->WaitForSave();
  EXPECT_TRUE(saved());
  EXPECT_EQ(std::filesystem::status(Path()).permissions() & std::filesystem::perms::all,
            std::filesystem::perms::owner_read | std::filesystem::perms::owner_write);
}

TEST_F(LearnedPriorTest, OpenFailsForAPathThatIsNotWritable) {
  const auto prior = LearnedPrior::Open(folder_.File("no/such/folder/file"), kLearnedVocabulary);
  EXPECT_FALSE(prior.ok());
  EXPECT_THAT(prior.status().message(), HasSubstr("no/such/folder"));
}

TEST_F(LearnedPriorTest, AFullDiskDoesNotKeepItFromOpening) {
  std::optional<testing::FullDisk> full_disk(64);
  const auto prior = LearnedPrior::Open(Path(), kLearnedVocabulary);
  full_disk.reset();
  ASSERT_TRUE(prior.ok()) << prior.status();
  EXPECT_FALSE(std::filesystem::exists(Path()));
  EXPECT_TRUE(prior->Save().ok());
}

TEST_F(LearnedPriorTest, AFileWithAnotherVocabularyIsSetAside) {
  ASSERT_TRUE(LearnedPrior::Open(Path(), kLearnedVocabulary).ok());
  for (int i = 0; i < 2; ++i) {
    const auto prior = LearnedPrior::Open(Path(), kLearnedVocabulary + 1);
    EXPECT_TRUE(prior.ok()) << prior.status();
  }
  EXPECT_TRUE(std::filesystem::exists(Path() + ".bad"));
}

TEST_F(LearnedPriorTest, ADamagedFileIsSetAsideAndReplacedByOneWithoutCounts) {
  folder_.Write("learned.safetensors", "damaged");
  auto prior = LearnedPrior::Open(Path(), kLearnedVocabulary);
  ASSERT_TRUE(prior.ok()) << prior.status();
  prior->counts()->Add({1}, 2);
  ASSERT_TRUE(prior->Save().ok());
  std::ifstream aside(Path() + ".bad");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(aside), {}), "damaged");
  EXPECT_GT(LearnedPrior::Open(Path(), kLearnedVocabulary)->counts()->After({1}).total, 0);
}

TEST_F(LearnedPriorTest, DamageNeverCausesACrash) {
  {
    auto prior = LearnedPrior::Open(Path(), kLearnedVocabulary);
    ASSERT_TRUE(prior.ok()) << prior.status();
    for (TokenId token = 0; token < kLearnedVocabulary; ++token) prior->counts()->Add({token}, 1);
    ASSERT_TRUE(prior->Save().ok());
  }
  std::ifstream in(Path(), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (size_t size = 0; size < whole.size(); size += 97) {
    std::filesystem::remove(Path());
    folder_.Write("learned.safetensors", whole.substr(0, size));
    const auto prior = LearnedPrior::Open(Path(), kLearnedVocabulary);
    ASSERT_TRUE(prior.ok()) << size << ": " << prior.status();
    EXPECT_TRUE(std::filesystem::remove(Path() + ".bad")) << size;
  }
  for (size_t at = 0; at < whole.size(); at += 41) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    std::filesystem::remove(Path());
    folder_.Write("learned.safetensors", damaged);
    auto prior = LearnedPrior::Open(Path(), kLearnedVocabulary);
    if (!prior.ok()) continue;
    // If the damage was not detected, all gains must still be finite.
    TransitionPrior request({.vocabulary = kLearnedVocabulary, .learned = prior->counts()});
    GainList gains;
    for (TokenId token = 0; token < kLearnedVocabulary; ++token) {
      request.Append(token);
      request.CollectGains(request.TokensBefore({}), &gains);
      for (const TokenGains& entry : gains.entries()) {
        for (const float gain : entry.gains) ASSERT_TRUE(std::isfinite(gain)) << at;
      }
    }
  }
}

}  // namespace
}  // namespace bastion
