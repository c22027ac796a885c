// Tests the rings, and a reader whose peer writes invalid data.
#include "common/shm/shared_ring.h"

#include <cstring>
#include <random>
#include <thread>

#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/shared_pair.h"

namespace bastion::wire {
namespace {

constexpr size_t kRing = 4096;

class SharedRingTest : public ::testing::Test {
 protected:
  // Writes a message that consists of a piece and a body. Returns false if the ring has no room.
  bool Write(const std::string& piece, const std::string& body) {
    const RingWriter::Piece tensor = writer_.Reserve(piece.size());
    if (tensor.data == nullptr) return false;
    std::memcpy(tensor.data, piece.data(), piece.size());
    const RingWriter::Piece last = writer_.Reserve(body.size());
    if (last.data == nullptr) {
      writer_.DiscardMessage();
      return false;
    }
    std::memcpy(last.data, body.data(), body.size());
    writer_.Publish(last, body.size());
    offset_ = tensor.offset;
    return true;
  }
  bool TakeMessage() {
    const absl::StatusOr<bool> taken = reader_.TakeMessage();
    EXPECT_TRUE(taken.ok()) << taken.status();
    return taken.ok() && *taken;
  }
  std::string Piece(size_t bytes) {
    const auto piece = reader_.Piece(offset_, bytes);
    EXPECT_TRUE(piece.ok()) << piece.status();
    return piece.ok() ? std::string(*piece) : "";
  }
  SharedCounters& counters() { return *reinterpret_cast<SharedCounters*>(mine_.data()); }
  // The header at `position` of the ring, in place.
  SlotHeader& header(uint64_t position = 0) {
    return *reinterpret_cast<SlotHeader*>(mine_.data() + kRingStart + position);
  }

  const SharedSegment mine_ = testing::MakeSegment(kRing), theirs_ = testing::MakeSegment(kRing);
  const SharedSegment mapped_mine_ = testing::Mapped(mine_),
                      mapped_theirs_ = testing::Mapped(theirs_);
  RingWriter writer_{mine_, mapped_theirs_, testing::kTestEpoch};
  RingReader reader_{theirs_, mapped_mine_, testing::kTestEpoch};
  uint64_t offset_ = 0;
};

TEST_F(SharedRingTest, MessagesOfAllSizesArriveInOrder) {
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::string piece(random() % 1000, static_cast<char>('a' + i % 26));
    const std::string body(random() % 900, static_cast<char>('A' + i % 26));
    ASSERT_TRUE(Write(piece, body)) << i;
    ASSERT_TRUE(TakeMessage()) << i;
    EXPECT_EQ(reader_.body(), body);
    EXPECT_EQ(Piece(piece.size()), piece);
    reader_.Release();
    EXPECT_FALSE(TakeMessage());
  }
}

TEST_F(SharedRingTest, AFullRingHasNoRoomUntilTheReaderReleases) {
  int written = 0;
  while (Write("piece", std::string(300, static_cast<char>('a' + written)))) ++written;
  EXPECT_GE(written, 7);
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(TakeMessage());
    EXPECT_FALSE(Write("piece", std::string(300, 'x')));  // The message is taken, not released.
    EXPECT_EQ(reader_.body()[299], 'a' + round % 26);
    reader_.Release();
    ASSERT_TRUE(Write("piece", std::string(300, static_cast<char>('a' + (written + round) % 26))));
  }
}

TEST_F(SharedRingTest, TheLargestMessageIsHalfOfTheRing) {
  EXPECT_TRUE(writer_.CanEverReserve(kRing / 2 - sizeof(SlotHeader)));
  EXPECT_FALSE(writer_.CanEverReserve(kRing / 2 - sizeof(SlotHeader) + 1));
  EXPECT_FALSE(writer_.CanEverReserve(~size_t{0}));
  for (int i = 0; i < 50; ++i) {  // The message fits at every position.
    ASSERT_TRUE(
        Write(std::string(kRing / 4 - sizeof(SlotHeader), 'p'), std::string(kRing / 4, 'b')));
    ASSERT_TRUE(TakeMessage());
    EXPECT_EQ(reader_.body(), std::string(kRing / 4, 'b'));
    reader_.Release();
    ASSERT_TRUE(Write("", std::string(i, 'b')));
    ASSERT_TRUE(TakeMessage());
    reader_.Release();
  }
}

TEST_F(SharedRingTest, AnEmptyRingRewindsToItsStart) {
  constexpr size_t kLarge = 16 << 20;
  const SharedSegment mine = testing::MakeSegment(kLarge), theirs = testing::MakeSegment(kLarge);
  const SharedSegment mapped_mine = testing::Mapped(mine), mapped_theirs = testing::Mapped(theirs);
  RingWriter writer(mine, mapped_theirs, 1);
  RingReader reader(theirs, mapped_mine, 1);
  for (int i = 0; i < 10000; ++i) {
    const RingWriter::Piece body = writer.Reserve(10000);
    ASSERT_NE(body.data, nullptr);
    EXPECT_LT(body.data, mine.data() + kRingStart + kRewindAfter + 20000);
    std::memcpy(body.data, &i, sizeof i);
    writer.Publish(body, sizeof i);
    const auto taken = reader.TakeMessage();
    ASSERT_TRUE(taken.ok() && *taken) << taken.status();
    EXPECT_EQ(std::memcmp(reader.body().data(), &i, sizeof i), 0);
    reader.Release();
  }
}

TEST_F(SharedRingTest, AnUnpublishedMessageIsNotVisible) {
  const RingWriter::Piece piece = writer_.Reserve(100);
  std::memset(piece.data, 'x', 100);
  EXPECT_FALSE(TakeMessage());
  writer_.DiscardMessage();
  ASSERT_TRUE(Write("p", "b"));
  ASSERT_TRUE(TakeMessage());
  EXPECT_EQ(reader_.body(), "b");
}

TEST_F(SharedRingTest, PieceRefusesBytesOutsideTheMessage) {
  ASSERT_TRUE(Write(std::string(100, 'p'), "body"));
  ASSERT_TRUE(Write(std::string(100, 'q'), "next"));
  ASSERT_TRUE(TakeMessage());
  constexpr uint64_t kMax = ~uint64_t{0};
  const std::vector<std::pair<uint64_t, uint64_t>> outside = {
      {0, 1},     {63, 1},      {64, 193},        {256, 1},    {kMax, 1},
      {64, kMax}, {kMax, kMax}, {kMax - 63, 128}, {1 << 20, 0}};
  for (const auto& [offset, bytes] : outside) {
    EXPECT_TRUE(absl::IsInvalidArgument(reader_.Piece(offset, bytes).status()))
        << offset << " " << bytes;
  }
  EXPECT_TRUE(reader_.Piece(64, 192).ok());
  reader_.Release();
  EXPECT_TRUE(absl::IsInvalidArgument(reader_.Piece(64, 1).status()));
}

TEST_F(SharedRingTest, PieceRefusesBytesAcrossTheEndOfTheRing) {
  ASSERT_TRUE(Write("", std::string(kRing / 2 - 64, 'b')));
  ASSERT_TRUE(TakeMessage());
  reader_.Release();
  ASSERT_TRUE(Write(std::string(kRing / 4, 'p'), std::string(kRing / 4 - 64, 'b')));
  ASSERT_TRUE(TakeMessage());
  EXPECT_TRUE(reader_.Piece(64, kRing / 2 - 64).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(reader_.Piece(64, kRing / 2 - 63).status()));
}

TEST_F(SharedRingTest, ARepeatedSequenceNumberIsDataLoss) {
  ASSERT_TRUE(Write("p", "one"));
  const SlotHeader first = header();
  ASSERT_TRUE(TakeMessage());
  const uint64_t extent = first.extent;
  reader_.Release();
  ASSERT_TRUE(Write("p", "two"));
  header(extent) = first;
  EXPECT_TRUE(absl::IsDataLoss(reader_.TakeMessage().status()));
}

TEST_F(SharedRingTest, AMessageFromADifferentEpochIsRefused) {
  RingWriter stale(mine_, mapped_theirs_, testing::kTestEpoch - 1);
  stale.Publish(stale.Reserve(4), 4);
  const absl::Status status = reader_.TakeMessage().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), ::testing::HasSubstr("epoch 76"));
}

TEST_F(SharedRingTest, AnInvalidHeadIsDataLoss) {
  ASSERT_TRUE(Write("p", "b"));
  ASSERT_TRUE(TakeMessage());
  reader_.Release();
  const uint64_t good = counters().head;
  for (const uint64_t head : {good - 64, good + 1, good + kRing + 64, ~uint64_t{0}, uint64_t{0}}) {
    counters().head = head;
    EXPECT_TRUE(absl::IsDataLoss(reader_.TakeMessage().status())) << head;
  }
}

TEST_F(SharedRingTest, AnInvalidAckLeavesNoRoom) {
  auto& theirs = *reinterpret_cast<SharedCounters*>(theirs_.data());
  theirs.ack = 64;
  EXPECT_FALSE(Write("p", "b"));
  theirs.ack = ~uint64_t{0};
  EXPECT_FALSE(Write("p", "b"));
  theirs.ack = 0;
  EXPECT_TRUE(Write("p", "b"));
}

// Sets each field in turn to an invalid value, with a correct checksum.
TEST_F(SharedRingTest, AHeaderWithOneWrongFieldIsDataLoss) {
  ASSERT_TRUE(Write("piece", "body"));
  const SlotHeader good = header();
  constexpr uint64_t kMax = ~uint64_t{0};
  const std::vector<std::function<void(SlotHeader&)>> corruptions = {
      [](SlotHeader& h) { h.magic = 0; },
      [](SlotHeader& h) { h.layout_version = 2; },
      [](SlotHeader& h) { h.sequence = 0; },
      [](SlotHeader& h) { h.sequence = 2; },
      [](SlotHeader& h) { h.extent = 0; },
      [](SlotHeader& h) { h.extent += 1; },
      [](SlotHeader& h) { h.extent += 64; },
      [](SlotHeader& h) { h.extent = kMax; },
      [](SlotHeader& h) { h.extent = kMax - 63; },
      [](SlotHeader& h) { h.body_offset = 0; },
      [](SlotHeader& h) { h.body_offset = kMax; },
      [](SlotHeader& h) { h.body_offset = kMax - 2; },
      [](SlotHeader& h) { h.body_bytes = kMax; },
      [](SlotHeader& h) { h.body_bytes = kMax - h.body_offset + 1; },
      [](SlotHeader& h) { h.body_bytes = 65; },
      [](SlotHeader& h) { h.kind = static_cast<SlotKind>(0); },
      [](SlotHeader& h) { h.kind = static_cast<SlotKind>(3); }};
  for (size_t i = 0; i < corruptions.size(); ++i) {
    header() = good;
    corruptions[i](header());
    header().crc32c = HeaderCrc(header());
    EXPECT_TRUE(absl::IsDataLoss(reader_.TakeMessage().status())) << i;
  }
  header() = good;
  header().crc32c ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(reader_.TakeMessage().status()));
  header() = good;
  EXPECT_TRUE(TakeMessage());
}

TEST_F(SharedRingTest, ASkipMustLeadToTheStartOfTheRing) {
  const auto skip = [&](uint64_t position, uint64_t extent) {
    header(position).kind = SlotKind::kSkip;
    header(position).extent = extent;
    header(position).crc32c = HeaderCrc(header(position));
    counters().head = position + extent;
  };
  ASSERT_TRUE(Write("p", "b"));
  const SlotHeader good = header();
  skip(0, good.extent);
  EXPECT_TRUE(absl::IsDataLoss(reader_.TakeMessage().status()));
  skip(0, kRing);
  EXPECT_TRUE(absl::IsDataLoss(reader_.TakeMessage().status()));
  header() = good;
  ASSERT_TRUE(TakeMessage());
  reader_.Release();
  ASSERT_TRUE(Write("p", "b"));
  skip(good.extent, kRing - good.extent);
  EXPECT_FALSE(TakeMessage());
}

// Applies random mutations to a header, with correct and with wrong checksums. Every header that is
// accepted lies within the ring.
TEST_F(SharedRingTest, RandomHeadersNeverPointOutsideTheRing) {
  ASSERT_TRUE(Write("piece", "body"));
  const SlotHeader good = header();
  const SlotBounds bounds = {0, counters().head, kRing, 1, testing::kTestEpoch};
  std::mt19937_64 random(42);
  int accepted = 0;
  for (int i = 0; i < 200000; ++i) {
    SlotHeader mutant = good;
    auto* const bytes = reinterpret_cast<unsigned char*>(&mutant);
    for (uint64_t n = 1 + random() % 4; n > 0; --n) {
      const uint64_t at = random() % (sizeof mutant / 8) * 8;
      // Words of random width, so that small values, which almost fit, are common.
      const uint64_t word = random() >> random() % 64;
      std::memcpy(bytes + at, &word, sizeof word);
    }
    if (random() % 2 == 0) mutant.magic = good.magic;
    if (random() % 2 == 0) mutant.sequence = good.sequence;
    if (random() % 8 != 0) mutant.crc32c = HeaderCrc(mutant);
    if (!CheckHeader(mutant, bounds).ok()) continue;
    ++accepted;
    ASSERT_LE(mutant.extent, bounds.available);
    ASSERT_GE(mutant.extent, sizeof(SlotHeader));
    if (mutant.kind == SlotKind::kSkip) continue;
    ASSERT_LE(mutant.body_offset, mutant.extent);
    ASSERT_LE(mutant.body_bytes, mutant.extent - mutant.body_offset);
  }
  EXPECT_GT(accepted, 100);
}

TEST(SharedRingLayoutTest, TheChecksumIsCrc32c) {
  // HeaderCrc accepts only headers, so compute the CRC-32C of 60 zero bytes here, bit by bit.
  uint32_t crc = ~0u;
  for (int bit = 0; bit < 60 * 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
  EXPECT_EQ(HeaderCrc(SlotHeader{}), ~crc);
}

TEST_F(SharedRingTest, AWriterAndAReaderOnTwoThreadsLoseNoWakeup) {
  constexpr int kMessages = 20000;
  std::thread writing([&] {
    for (int i = 0; i < kMessages; ++i) {
      const std::string body = std::to_string(i);
      while (!Write(std::string(i % 700, 'p'), body)) {
        const CounterWatch watch = writer_.room_watch();
        watch.asleep->store(1);
        if (!watch.changed()) SleepUntilChanged(watch, absl::Seconds(20));
        watch.asleep->store(0);
      }
    }
  });
  int read = 0;
  const absl::Time start = absl::Now();
  while (read < kMessages) {
    if (TakeMessage()) {
      ASSERT_EQ(reader_.body(), std::to_string(read));
      ++read;
      reader_.Release();
      continue;
    }
    const CounterWatch watch = reader_.message_watch();
    watch.asleep->store(1);
    if (!watch.changed()) SleepUntilChanged(watch, absl::Seconds(20));
    watch.asleep->store(0);
  }
  writing.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(20)) << "a wakeup was lost";
}

}  // namespace
}  // namespace bastion::wire
