#include "verifier_service/features/feature_store.h"

#include <cstring>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::verifier {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr SequenceId kStored = {7, 1};
constexpr int kStoredWidth = 2;
constexpr int64_t kLargeLimit = 1 << 20;
constexpr absl::Duration kNoWait = absl::ZeroDuration();
constexpr absl::Duration kLongTimeout = absl::Seconds(30);

// Row r holds 10·r and 10·r + 1.
std::vector<float> Rows(int first, int count) {
  std::vector<float> rows;
  for (int r = first; r < first + count; ++r) {
    rows.push_back(static_cast<float>(10 * r));
    rows.push_back(static_cast<float>(10 * r + 1));
  }
  return rows;
}

void AppendRows(FeatureStore& store, SequenceId sequence, int first, int count,
                TokenId next = kNoToken) {
  const std::vector<float> rows = Rows(first, count);
  store.Append(sequence, {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(float)},
               next);
}

std::vector<float> Floats(const Features& features) {
  std::vector<float> values(features.bytes.size() / 4);
  std::memcpy(values.data(), features.bytes.data(), features.bytes.size());
  return values;
}

TEST(FeatureStoreTest, ReadsTheRowsThatWereAppended) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 3);
  AppendRows(store, kStored, 3, 2);
  EXPECT_EQ(*store.Rows(kStored), 5);
  EXPECT_EQ(store.bytes(), 5 * 8);
  const auto read = store.Read({kStored, 2, 2}, kNoWait);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->width, kStoredWidth);
  EXPECT_EQ(read->rows(), 2);
  EXPECT_THAT(Floats(*read), ElementsAre(20, 21, 30, 31));
}

TEST(FeatureStoreTest, TheNextTokenIsReturnedOnlyWithTheLastRow) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 3);  // A prefill chooses no token.
  EXPECT_EQ(store.Read({kStored, 0, 3}, kNoWait)->next, kNoToken);
  AppendRows(store, kStored, 3, 2, /*next=*/42);
  EXPECT_EQ(store.Read({kStored, 0, 5}, kNoWait)->next, 42);
  EXPECT_EQ(store.Read({kStored, 4, 1}, kNoWait)->next, 42);
  EXPECT_EQ(store.Read({kStored, 0, 4}, kNoWait)->next, kNoToken);
}

TEST(FeatureStoreTest, Bf16RowsAreHalfAsLong) {
  FeatureStore store(DType::kBF16, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  store.Append(kStored, {"\x20\x41\x30\x41", 4});  // 10 and 11.
  const auto read = store.Read({kStored, 0, 1}, kNoWait);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->rows(), 1);
  EXPECT_EQ(read->bytes, "\x20\x41\x30\x41");
}

TEST(FeatureStoreTest, ReadWaitsForRows) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 1);
  std::thread engine([&] { AppendRows(store, kStored, 1, 1); });
  const auto read = store.Read({kStored, 0, 2}, kLongTimeout);
  engine.join();
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->rows(), 2);
}

TEST(FeatureStoreTest, ReadTimesOut) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 1);
  const auto read = store.Read({kStored, 0, 2}, absl::Milliseconds(5));
  EXPECT_EQ(read.status().code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(read.status().message(), HasSubstr("the store has 1 rows, but 2 were requested"));
}

TEST(FeatureStoreTest, ReadFailsWhenTheSequenceIsClosed) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  std::thread engine([&] { store.Close(kStored); });
  EXPECT_TRUE(absl::IsNotFound(store.Read({kStored, 0, 1}, kLongTimeout).status()));
  engine.join();
}

TEST(FeatureStoreTest, UnknownSequencesAreNotFound) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  const SequenceId other = {7, 2};
  EXPECT_TRUE(absl::IsNotFound(store.Read({other, 0, 1}, kNoWait).status()));
  EXPECT_TRUE(absl::IsNotFound(store.Rows(other).status()));
  const auto never = [](DType, int, int) -> char* {
    ADD_FAILURE();
    return nullptr;
  };
  EXPECT_TRUE(absl::IsNotFound(store.Copy(other, 0, 1, 8, never).status()));
  EXPECT_EQ(store.Copy(kStored, 0, 1, 8, never)->rows, 0);  // No rows yet.
  AppendRows(store, other, 0, 1);                           // Ignored: `other` is not open.
  store.Close(other);
  EXPECT_EQ(store.bytes(), 0);
}

TEST(FeatureStoreTest, ASequenceThatExceedsTheMemoryLimitLosesItsHistory) {
  FeatureStore store(DType::kF32, /*max_bytes=*/5 * 8);
  const SequenceId other = {8, 1};
  store.Open(kStored, kStoredWidth);
  store.Open(other, kStoredWidth);
  AppendRows(store, kStored, 0, 3);
  AppendRows(store, other, 0, 2);
  AppendRows(store, kStored, 3, 1);
  const auto read = store.Read({kStored, 0, 1}, kNoWait);
  EXPECT_TRUE(absl::IsOutOfRange(read.status())) << read.status();
  EXPECT_THAT(read.status().message(), HasSubstr("--feature_bytes"));
  EXPECT_EQ(store.bytes(), 2 * 8);
  AppendRows(store, kStored, 4, 1);  // Still dropped, because a history must not have gaps.
  EXPECT_TRUE(absl::IsOutOfRange(store.Rows(kStored).status()));
  EXPECT_TRUE(store.Read({other, 0, 2}, kNoWait).ok());
}

TEST(FeatureStoreTest, TheLongestHistoryIsDroppedAndShorterOnesGoOn) {
  FeatureStore store(DType::kF32, /*max_bytes=*/10 * 8);
  const SequenceId other = {9, 0};
  store.Open(kStored, 2);
  store.Open(other, 2);
  AppendRows(store, kStored, 0, 8);
  AppendRows(store, other, 0, 3);
  EXPECT_TRUE(absl::IsOutOfRange(store.Rows(kStored).status()));
  ASSERT_TRUE(store.Rows(other).ok()) << store.Rows(other).status();
  EXPECT_EQ(*store.Rows(other), 3);
  EXPECT_EQ(store.bytes(), 3 * 8);
}

TEST(FeatureStoreTest, CloseFreesTheMemory) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 4);
  store.Close(kStored);
  EXPECT_EQ(store.bytes(), 0);
}

TEST(FeatureStoreTest, ReopeningUnderAHigherEpochFreesTheOldMemory) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 4);
  store.Open({kStored.session, kStored.epoch + 1}, kStoredWidth);
  EXPECT_EQ(store.bytes(), 0);
  EXPECT_TRUE(absl::IsNotFound(store.Rows(kStored).status()));
}

TEST(FeatureStoreTest, ASequenceOpenedBeforeAnyDrafterHasNoFeatures) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, /*width=*/0);
  AppendRows(store, kStored, 0, 1);
  const auto read = store.Read({kStored, 0, 1}, kNoWait);
  EXPECT_TRUE(absl::IsOutOfRange(read.status())) << read.status();
}

TEST(FeatureStoreTest, CopiesTheRowsThatFitIntoTheGivenMemory) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 5, /*next=*/42);
  const auto copy = [&](Position first, size_t max_bytes, Position end = 100) {
    std::vector<float> values;
    const auto copied =
        store.Copy(kStored, first, end, max_bytes, [&](DType type, int rows, int width) {
          EXPECT_EQ(type, DType::kF32);
          EXPECT_EQ(width, kStoredWidth);
          values.resize(size_t(rows) * width);
          return reinterpret_cast<char*>(values.data());
        });
    EXPECT_TRUE(copied.ok()) << copied.status();
    EXPECT_EQ(copied->rows * kStoredWidth, static_cast<int>(values.size()));
    // The token that the verify chose is returned only with the last row.
    EXPECT_EQ(copied->next, first + copied->rows == 5 ? 42 : kNoToken);
    return values;
  };
  EXPECT_THAT(copy(1, 16), ElementsAre(10, 11, 20, 21));
  EXPECT_THAT(copy(3, 17), ElementsAre(30, 31, 40, 41));
  EXPECT_THAT(copy(2, 1), ElementsAre(20, 21));  // At least one row.
  EXPECT_THAT(copy(3, 100, /*end=*/4), ElementsAre(30, 31));
  EXPECT_THAT(copy(3, 100, /*end=*/3), ElementsAre());
}

TEST(FeatureStoreTest, ListenersAreCalledForEveryChangeUntilDestroyed) {
  FeatureStore store(DType::kF32, kLargeLimit);
  int first_calls = 0, second_calls = 0;
  const auto first = store.Listen([&] { ++first_calls; });
  store.Open(kStored, kStoredWidth);
  EXPECT_EQ(first_calls, 1);
  auto second = store.Listen([&] { second_calls += *store.Rows(kStored); });
  AppendRows(store, kStored, 0, 3);
  EXPECT_EQ(first_calls, 2);
  EXPECT_EQ(second_calls, 3);  // A listener may read the store.
  AppendRows(store, {9, 9}, 0, 1);
  EXPECT_EQ(first_calls, 2) << "nothing changed";
  second.reset();
  store.Close(kStored);
  EXPECT_EQ(first_calls, 3);
  EXPECT_EQ(second_calls, 3);
}

// ---- blocks of KV pages ----

TEST(FeatureStoreTest, ARangeMayCoverSeveralBlocks) {
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 10);
  AppendRows(store, kStored, 10, 40);
  const auto read = store.Read({kStored, 13, 30}, kNoWait);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Floats(*read), Rows(13, 30));
}

TEST(FeatureStoreTest, KeptBlocksBeginOtherSequencesAndCountOnce) {
  constexpr int kBlock = FeatureStore::kBlockRows;
  constexpr SequenceId kOther = {8, 1};
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 2 * kBlock + 3);
  store.Keep(kStored, 0, /*page=*/70);
  store.Keep(kStored, 1, /*page=*/30);
  store.Close(kStored);
  EXPECT_EQ(store.bytes(), 2 * kBlock * 8) << "rows outside the kept blocks are dropped";
  store.Open(kOther, kStoredWidth);
  store.Share(kOther, {70, 30});
  EXPECT_EQ(*store.Rows(kOther), 2 * kBlock);
  EXPECT_EQ(store.bytes(), 2 * kBlock * 8);
  AppendRows(store, kOther, 2 * kBlock, 1, /*next=*/5);
  const auto read = store.Read({kOther, 0, 2 * kBlock + 1}, kNoWait);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(Floats(*read), Rows(0, 2 * kBlock + 1));
  EXPECT_EQ(read->next, 5);
  store.Forget(70);
  store.Forget(30);
  EXPECT_EQ(store.bytes(), (2 * kBlock + 1) * 8) << "the sequence still holds the blocks";
  store.Close(kOther);
  EXPECT_EQ(store.bytes(), 0);
}

TEST(FeatureStoreTest, APageKeepsItsLastBlock) {
  constexpr int kBlock = FeatureStore::kBlockRows;
  FeatureStore store(DType::kF32, kLargeLimit);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 2 * kBlock);
  store.Keep(kStored, 0, /*page=*/7);
  store.Keep(kStored, 1, /*page=*/7);
  store.Close(kStored);
  EXPECT_EQ(store.bytes(), kBlock * 8);
}

TEST(FeatureStoreTest, FitsSaysWhetherAnAppendKeepsTheHistory) {
  FeatureStore store(DType::kF32, /*max_bytes=*/3 * 8);
  store.Open(kStored, kStoredWidth);
  AppendRows(store, kStored, 0, 1);
  EXPECT_TRUE(store.Fits(2 * 8));
  EXPECT_FALSE(store.Fits(3 * 8));
}

// A store with a ring that has room for eight rows.
class RingStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto ring = wire::DeviceRingWriter::Create(wire::Descriptor(), 8 * kRowBytes, "a GPU");
    ASSERT_TRUE(ring.ok()) << ring.status();
    ring_ = *std::move(ring);
    store_ = std::make_unique<FeatureStore>(DType::kF32, kLargeLimit, ring_);
    store_->Open(kStored, kRingWidth);
  }
  void Append(int count, TokenId next, bool in_ring = true) {
    std::optional<uint64_t> position;
    if (in_ring) {
      position = ring_->Reserve(count * kRowBytes);
      ring_->Keep(count * kRowBytes);
    }
    store_->Append(kStored, std::string(count * kRowBytes, 'x'), next, position);
  }
  // Returns {rows, position / kRowBytes, next}.
  std::vector<int64_t> Locate(Position first, Position end = 100) {
    const auto located = store_->Locate(kStored, first, end);
    EXPECT_TRUE(located.ok()) << located.status();
    if (located->rows == 0) return {};
    EXPECT_EQ(located->width, kRingWidth);
    return {located->rows, static_cast<int64_t>(located->position / kRowBytes), located->next};
  }

  static constexpr int kRingWidth = 4;
  static constexpr uint64_t kRowBytes = 4 * kRingWidth;
  std::shared_ptr<wire::DeviceRingWriter> ring_;
  std::unique_ptr<FeatureStore> store_;
};

TEST_F(RingStoreTest, LocatesTheRowsOfEachAppendUntilTheyAreOverwritten) {
  Append(3, 11);
  Append(2, 12);
  EXPECT_THAT(Locate(0), ElementsAre(3, 0, kNoToken));
  EXPECT_THAT(Locate(1), ElementsAre(2, 1, kNoToken));
  EXPECT_THAT(Locate(4), ElementsAre(1, 4, 12));
  EXPECT_THAT(Locate(5), ElementsAre());
  EXPECT_THAT(Locate(3, /*end=*/4), ElementsAre(1, 3, kNoToken));
  EXPECT_THAT(Locate(3, /*end=*/3), ElementsAre());
  // This append does not fit before the end of the ring, so it wraps and overwrites rows 0 to 3.
  Append(4, 13);
  EXPECT_THAT(Locate(0), ElementsAre());
  EXPECT_THAT(Locate(3), ElementsAre());
  EXPECT_THAT(Locate(4), ElementsAre(1, 4, kNoToken));
  EXPECT_THAT(Locate(5), ElementsAre(4, 8, 13));
  // The store keeps the bytes of all rows.
  EXPECT_EQ(store_->Read({kStored, 0, 9}, kNoWait)->rows(), 9);
}

TEST_F(RingStoreTest, DoesNotLocateRowsOutsideTheRing) {
  Append(2, 11, /*in_ring=*/false);
  Append(2, 12);
  EXPECT_THAT(Locate(1), ElementsAre());
  EXPECT_THAT(Locate(2), ElementsAre(2, 0, 12));
  EXPECT_FALSE(store_->Locate({99, 0}, 0, 1).ok());
}

}  // namespace
}  // namespace bastion::verifier
