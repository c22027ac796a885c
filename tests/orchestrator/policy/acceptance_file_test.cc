#include "orchestrator/policy/acceptance_file.h"

#include <cmath>
#include <filesystem>
#include <fstream>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/full_disk.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::bastion::testing::TempFolder;
using ::testing::HasSubstr;

constexpr int kVocabulary = 100;
const AcceptanceFile::Models kModels = {"target-8b", "drafter-8b"};
const float kLogHalf = std::log(0.5f);

// Observes that candidates are chosen half as often as they state.
void Learn(SharedLearning* memory) {
  AcceptanceCalibration& calibration =
      memory->at(DraftMode::kCoupled, Policy::Prior::kBoth).draft_calibration;
  for (int i = 0; i < 400; ++i) {
    calibration.Observe(PathKind::kSpine, 2, kLogHalf, 0.5, i % 4 == 0);
    calibration.EndCycle();
  }
  calibration.Refresh();
}

// The factor by which `memory` corrects a draft of probability one half.
float Factor(SharedLearning& memory, DraftMode mode = DraftMode::kCoupled) {
  return std::exp(memory.at(mode, Policy::Prior::kBoth)
                      .draft_calibration.LogFactor(PathKind::kSpine, 2, kLogHalf));
}

class AcceptanceFileTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string Path() const { return folder_.File("acceptance.safetensors"); }
  // Saves what Learn has taught.
  void SaveLearned() {
    auto file = AcceptanceFile::Open(Path(), kVocabulary);
    ASSERT_TRUE(file.ok()) << file.status();
    SharedLearning memory;
    file->Restore(kModels, &memory);
    Learn(&memory);
    file->Collect(memory);
    const absl::Status saved = file->Save();
    ASSERT_TRUE(saved.ok()) << saved;
  }
  // The factor after a start with `models`.
  float RestoredFactor(const AcceptanceFile::Models& models) {
    auto file = AcceptanceFile::Open(Path(), kVocabulary);
    EXPECT_TRUE(file.ok()) << file.status();
    SharedLearning memory;
    if (file.ok()) file->Restore(models, &memory);
    return Factor(memory);
  }

  TempFolder folder_;
};

TEST_F(AcceptanceFileTest, ARestartContinuesWithTheSavedCalibration) {
  SharedLearning learned;
  Learn(&learned);
  ASSERT_NEAR(Factor(learned), 0.5, 0.05);
  SaveLearned();
  EXPECT_NEAR(RestoredFactor(kModels), Factor(learned), 1e-5);
}

TEST_F(AcceptanceFileTest, ARestartContinuesWithTheLearnedWeights) {
  auto file = AcceptanceFile::Open(Path(), kVocabulary);
  SharedLearning learned;
  SharedSpeculation& shared = learned.at(DraftMode::kGreedy, Policy::Prior::kTable);
  CandidateTerms likely{}, chosen{};
  likely[kDraftTerm] = -0.1f;
  chosen[kDraftTerm] = -2.0f;
  chosen[kFirstGainTerm] = 1.5f;
  for (int i = 0; i < 50; ++i) shared.draft_weights.Update(1, {likely, chosen}, 1);
  shared.weight_updates = 50;
  file->Restore(kModels, nullptr);
  file->Collect(learned);
  ASSERT_TRUE(file->Save().ok());

  auto reopened = AcceptanceFile::Open(Path(), kVocabulary);
  ASSERT_TRUE(reopened.ok()) << reopened.status();
  SharedLearning memory;
  reopened->Restore(kModels, &memory);
  SharedSpeculation& restored = memory.at(DraftMode::kGreedy, Policy::Prior::kTable);
  EXPECT_EQ(restored.weight_updates, 50);
  EXPECT_EQ(restored.draft_weights.At(1), shared.draft_weights.At(1));
  EXPECT_NE(restored.draft_weights.At(1), CandidateWeights::ForDrafts().At(1));
  // The curvature is restored too, so both learn alike.
  shared.draft_weights.Update(1, {likely, chosen}, 0);
  restored.draft_weights.Update(1, {likely, chosen}, 0);
  for (int term = 0; term < kCandidateTerms; ++term) {
    EXPECT_NEAR(restored.draft_weights.At(1)[term], shared.draft_weights.At(1)[term], 1e-4);
  }
}

TEST_F(AcceptanceFileTest, OtherKeysStartWithoutCalibration) {
  SaveLearned();
  auto file = AcceptanceFile::Open(Path(), kVocabulary);
  SharedLearning memory;
  file->Restore(kModels, &memory);
  EXPECT_EQ(Factor(memory, DraftMode::kGreedy), 1);
}

TEST_F(AcceptanceFileTest, NewObservationsOutweighTheSavedOnes) {
  SaveLearned();
  auto file = AcceptanceFile::Open(Path(), kVocabulary);
  SharedLearning memory;
  file->Restore(kModels, &memory);
  AcceptanceCalibration& calibration =
      memory.at(DraftMode::kCoupled, Policy::Prior::kBoth).draft_calibration;
  for (int i = 0; i < 1000; ++i) {
    calibration.Observe(PathKind::kSpine, 2, kLogHalf, 0.5, i % 2 == 0);
    calibration.EndCycle();
  }
  calibration.Refresh();
  EXPECT_NEAR(Factor(memory), 1, 0.05);
}

TEST_F(AcceptanceFileTest, CountsOfOtherModelsAreIgnored) {
  SaveLearned();
  EXPECT_EQ(RestoredFactor({"target-8b", "another-drafter"}), 1);
  EXPECT_EQ(RestoredFactor({"another-target", "drafter-8b"}), 1);
  // The drafter may start later.
  EXPECT_NEAR(RestoredFactor({"target-8b", ""}), 0.5, 0.05);
}

TEST_F(AcceptanceFileTest, SaveIfDueSavesAfterTheInterval) {
  auto file = AcceptanceFile::Open(Path(), kVocabulary);
  ASSERT_TRUE(file.ok()) << file.status();
  SharedLearning memory;
  file->Restore(kModels, &memory);
  Learn(&memory);
  file->SaveIfDue(absl::Seconds(1), memory);
  file->WaitForSave();
  EXPECT_EQ(RestoredFactor(kModels), 1);
  file->SaveIfDue(absl::Seconds(1) + PeriodicSave::kInterval, memory);
  file->WaitForSave();
  EXPECT_NEAR(RestoredFactor(kModels), 0.5, 0.05);
}

TEST_F(AcceptanceFileTest, OpenFailsForAPathThatIsNotWritable) {
  const auto file = AcceptanceFile::Open(folder_.File("no/such/folder/file"), kVocabulary);
  EXPECT_FALSE(file.ok());
  EXPECT_THAT(file.status().message(), HasSubstr("no/such/folder"));
}

TEST_F(AcceptanceFileTest, AFullDiskDoesNotKeepItFromOpening) {
  std::optional<testing::FullDisk> full_disk(64);
  const auto file = AcceptanceFile::Open(Path(), kVocabulary);
  full_disk.reset();
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_FALSE(std::filesystem::exists(Path()));
  EXPECT_TRUE(file->Save().ok());
}

TEST_F(AcceptanceFileTest, AFileWithAnotherVocabularyIsSetAside) {
  SaveLearned();
  for (int i = 0; i < 2; ++i) {
    const auto file = AcceptanceFile::Open(Path(), kVocabulary + 1);
    EXPECT_TRUE(file.ok()) << file.status();
  }
  EXPECT_TRUE(std::filesystem::exists(Path() + ".bad"));
}

TEST_F(AcceptanceFileTest, ADamagedFileIsSetAsideAndNeverCausesACrash) {
  SaveLearned();
  std::ifstream in(Path(), std::ios::binary);
  const std::string whole((std::istreambuf_iterator<char>(in)), {});
  for (size_t size = 0; size < whole.size(); size += 97) {
    std::filesystem::remove(Path());
    folder_.Write("acceptance.safetensors", whole.substr(0, size));
    const auto file = AcceptanceFile::Open(Path(), kVocabulary);
    ASSERT_TRUE(file.ok()) << size << ": " << file.status();
    EXPECT_TRUE(std::filesystem::remove(Path() + ".bad")) << size;
  }
  for (size_t at = 0; at < whole.size(); at += 7) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
    std::filesystem::remove(Path());
    folder_.Write("acceptance.safetensors", damaged);
    auto file = AcceptanceFile::Open(Path(), kVocabulary);
    if (!file.ok()) continue;
    // If the damage was not detected, all factors must still be finite.
    SharedLearning memory;
    file->Restore(kModels, &memory);
    for (const auto& [key, shared] : memory.shared()) {
      for (int depth = 1; depth <= 9; ++depth) {
        for (const PathKind kind : {PathKind::kSpine, PathKind::kSibling, PathKind::kOffSpine}) {
          ASSERT_TRUE(std::isfinite(shared.draft_calibration.LogFactor(kind, depth, kLogHalf)));
        }
      }
    }
  }
}

}  // namespace
}  // namespace bastion
