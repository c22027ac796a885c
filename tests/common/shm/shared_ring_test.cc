// The rings by themselves, and what a reader says to a peer that writes nonsense.
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
  // A message of a piece and a body; false when there is no room.
  bool Write(const std::string& piece, const std::string& body) {
    const RingWriter::Piece tensor = writer_.Reserve(piece.size());
    if (tensor.data == nullptr) return false;
    std::memcpy(tensor.data, piece.data(), piece.size());
    const RingWriter::Piece last = writer_.Reserve(body.size());
    if (last.data == nullptr) {
      writer_.Abandon();
      return false;
    }
    std::memcpy(last.data, body.data(), body.size());
    writer_.Publish(last, body.size());
    offset_ = tensor.offset;
    return true;
  }
  bool Take() {
    const absl::StatusOr<bool> taken = reader_.Take();
    EXPECT_TRUE(taken.ok()) << taken.status();
    return taken.ok() && *taken;
  }
  std::string Piece(size_t bytes) {
    const auto piece = reader_.Piece(offset_, bytes);
    EXPECT_TRUE(piece.ok()) << piece.status();
    return piece.ok() ? std::string(*piece) : "";
  }
  SharedCounters& counters() { return *reinterpret_cast<SharedCounters*>(mine_.data()); }
  // The header of the message that is to be read next, where the writer put it.
  SlotHeader& header(uint64_t position = 0) {
    return *reinterpret_cast<SlotHeader*>(mine_.data() + kRingStart + position);
  }

  const SharedSegment mine_ = testing::MakeSegment(kRing), theirs_ = testing::MakeSegment(kRing);
  const SharedSegment mine_seen_ = testing::Mapped(mine_), theirs_seen_ = testing::Mapped(theirs_);
  RingWriter writer_{mine_, theirs_seen_, testing::kTestEpoch};
  RingReader reader_{theirs_, mine_seen_, testing::kTestEpoch};
  uint64_t offset_ = 0;
};

TEST_F(SharedRingTest, MessagesOfAllSizesComeRoundInOrderAndInPlace) {
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {
    const std::string piece(random() % 1000, static_cast<char>('a' + i % 26));
    const std::string body(random() % 900, static_cast<char>('A' + i % 26));
    ASSERT_TRUE(Write(piece, body)) << i;
    ASSERT_TRUE(Take()) << i;
    EXPECT_EQ(reader_.body(), body);
    EXPECT_EQ(Piece(piece.size()), piece);
    reader_.Release();
    EXPECT_FALSE(Take());
  }
}

TEST_F(SharedRingTest, AFullRingTakesNothingMoreUntilTheReaderIsDone) {
  int written = 0;
  while (Write("piece", std::string(300, static_cast<char>('a' + written)))) ++written;
  EXPECT_GE(written, 7);
  for (int round = 0; round < 100; ++round) {
    ASSERT_TRUE(Take());
    EXPECT_FALSE(Write("piece", std::string(300, 'x')));  // Taken up is not done with.
    EXPECT_EQ(reader_.body()[299], 'a' + round % 26);
    reader_.Release();
    ASSERT_TRUE(Write("piece", std::string(300, static_cast<char>('a' + (written + round) % 26))));
  }
}

TEST_F(SharedRingTest, HalfOfTheRingIsTheLargestMessage) {
  EXPECT_TRUE(writer_.CanEverReserve(kRing / 2 - sizeof(SlotHeader)));
  EXPECT_FALSE(writer_.CanEverReserve(kRing / 2 - sizeof(SlotHeader) + 1));
  EXPECT_FALSE(writer_.CanEverReserve(~size_t{0}));
  for (int i = 0; i < 50; ++i) {  // Wherever it begins.
    ASSERT_TRUE(
        Write(std::string(kRing / 4 - sizeof(SlotHeader), 'p'), std::string(kRing / 4, 'b')));
    ASSERT_TRUE(Take());
    EXPECT_EQ(reader_.body(), std::string(kRing / 4, 'b'));
    reader_.Release();
    ASSERT_TRUE(Write("", std::string(i, 'b')));
    ASSERT_TRUE(Take());
    reader_.Release();
  }
}

TEST_F(SharedRingTest, AnEmptyRingBeginsAtItsStartAgain) {
  constexpr size_t kLarge = 16 << 20;
  const SharedSegment mine = testing::MakeSegment(kLarge), theirs = testing::MakeSegment(kLarge);
  const SharedSegment mine_seen = testing::Mapped(mine), theirs_seen = testing::Mapped(theirs);
  RingWriter writer(mine, theirs_seen, 1);
  RingReader reader(theirs, mine_seen, 1);
  for (int i = 0; i < 10000; ++i) {
    const RingWriter::Piece body = writer.Reserve(10000);
    ASSERT_NE(body.data, nullptr);
    EXPECT_LT(body.data, mine.data() + kRingStart + kRewindAfter + 20000);
    std::memcpy(body.data, &i, sizeof i);
    writer.Publish(body, sizeof i);
    const auto taken = reader.Take();
    ASSERT_TRUE(taken.ok() && *taken) << taken.status();
    EXPECT_EQ(std::memcmp(reader.body().data(), &i, sizeof i), 0);
    reader.Release();
  }
}

TEST_F(SharedRingTest, AMessageThatIsNotPublishedIsNotThere) {
  const RingWriter::Piece piece = writer_.Reserve(100);
  std::memset(piece.data, 'x', 100);
  EXPECT_FALSE(Take());
  writer_.Abandon();
  ASSERT_TRUE(Write("p", "b"));
  ASSERT_TRUE(Take());
  EXPECT_EQ(reader_.body(), "b");
}

TEST_F(SharedRingTest, PiecesOutsideTheMessage) {
  ASSERT_TRUE(Write(std::string(100, 'p'), "body"));
  ASSERT_TRUE(Write(std::string(100, 'q'), "next"));
  ASSERT_TRUE(Take());
  constexpr uint64_t kMost = ~uint64_t{0};
  const std::vector<std::pair<uint64_t, uint64_t>> outside = {
      {0, 1},      {63, 1},        {64, 193},         {256, 1},    {kMost, 1},
      {64, kMost}, {kMost, kMost}, {kMost - 63, 128}, {1 << 20, 0}};
  for (const auto& [offset, bytes] : outside) {
    EXPECT_TRUE(absl::IsInvalidArgument(reader_.Piece(offset, bytes).status()))
        << offset << " " << bytes;
  }
  EXPECT_TRUE(reader_.Piece(64, 192).ok());
  reader_.Release();
  EXPECT_TRUE(absl::IsInvalidArgument(reader_.Piece(64, 1).status()));
}

TEST_F(SharedRingTest, APieceAcrossTheEndOfTheRingIsNoPiece) {
  ASSERT_TRUE(Write("", std::string(kRing / 2 - 64, 'b')));
  ASSERT_TRUE(Take());
  reader_.Release();
  ASSERT_TRUE(Write(std::string(kRing / 4, 'p'), std::string(kRing / 4 - 64, 'b')));
  ASSERT_TRUE(Take());
  EXPECT_TRUE(reader_.Piece(64, kRing / 2 - 64).ok());
  EXPECT_TRUE(absl::IsInvalidArgument(reader_.Piece(64, kRing / 2 - 63).status()));
}

TEST_F(SharedRingTest, ASequenceNumberThatWasSeenBefore) {
  ASSERT_TRUE(Write("p", "one"));
  const SlotHeader first = header();
  ASSERT_TRUE(Take());
  const uint64_t extent = first.extent;
  reader_.Release();
  ASSERT_TRUE(Write("p", "two"));
  header(extent) = first;
  EXPECT_TRUE(absl::IsDataLoss(reader_.Take().status()));
}

TEST_F(SharedRingTest, AnotherEpoch) {
  RingWriter stale(mine_, theirs_seen_, testing::kTestEpoch - 1);
  stale.Publish(stale.Reserve(4), 4);
  const absl::Status status = reader_.Take().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(status.message(), ::testing::HasSubstr("epoch 76"));
}

TEST_F(SharedRingTest, HeadsThatMakeNoSense) {
  ASSERT_TRUE(Write("p", "b"));
  ASSERT_TRUE(Take());
  reader_.Release();
  const uint64_t good = counters().head;
  for (const uint64_t head : {good - 64, good + 1, good + kRing + 64, ~uint64_t{0}, uint64_t{0}}) {
    counters().head = head;
    EXPECT_TRUE(absl::IsDataLoss(reader_.Take().status())) << head;
  }
}

TEST_F(SharedRingTest, AnAckThatMakesNoSenseLeavesNoRoom) {
  auto& theirs = *reinterpret_cast<SharedCounters*>(theirs_.data());
  theirs.ack = 64;
  EXPECT_FALSE(Write("p", "b"));
  theirs.ack = ~uint64_t{0};
  EXPECT_FALSE(Write("p", "b"));
  theirs.ack = 0;
  EXPECT_TRUE(Write("p", "b"));
}

// Every field in turn made to be what it must not be, under a checksum that is right.
TEST_F(SharedRingTest, HeadersWithOneFieldWrong) {
  ASSERT_TRUE(Write("piece", "body"));
  const SlotHeader good = header();
  constexpr uint64_t kMost = ~uint64_t{0};
  const std::vector<std::function<void(SlotHeader&)>> spoilers = {
      [](SlotHeader& h) { h.magic = 0; },
      [](SlotHeader& h) { h.layout_version = 2; },
      [](SlotHeader& h) { h.sequence = 0; },
      [](SlotHeader& h) { h.sequence = 2; },
      [](SlotHeader& h) { h.extent = 0; },
      [](SlotHeader& h) { h.extent += 1; },
      [](SlotHeader& h) { h.extent += 64; },
      [](SlotHeader& h) { h.extent = kMost; },
      [](SlotHeader& h) { h.extent = kMost - 63; },
      [](SlotHeader& h) { h.body_offset = 0; },
      [](SlotHeader& h) { h.body_offset = kMost; },
      [](SlotHeader& h) { h.body_offset = kMost - 2; },
      [](SlotHeader& h) { h.body_bytes = kMost; },
      [](SlotHeader& h) { h.body_bytes = kMost - h.body_offset + 1; },
      [](SlotHeader& h) { h.body_bytes = 65; },
      [](SlotHeader& h) { h.kind = static_cast<SlotKind>(0); },
      [](SlotHeader& h) { h.kind = static_cast<SlotKind>(3); }};
  for (size_t i = 0; i < spoilers.size(); ++i) {
    header() = good;
    spoilers[i](header());
    header().crc32c = HeaderCrc(header());
    EXPECT_TRUE(absl::IsDataLoss(reader_.Take().status())) << i;
  }
  header() = good;
  header().crc32c ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(reader_.Take().status()));
  header() = good;
  EXPECT_TRUE(Take());
}

TEST_F(SharedRingTest, ASkipThatDoesNotLeadFromWithinTheRingToItsStart) {
  const auto skip = [&](uint64_t position, uint64_t extent) {
    header(position).kind = SlotKind::kSkip;
    header(position).extent = extent;
    header(position).crc32c = HeaderCrc(header(position));
    counters().head = position + extent;
  };
  ASSERT_TRUE(Write("p", "b"));
  const SlotHeader good = header();
  skip(0, good.extent);
  EXPECT_TRUE(absl::IsDataLoss(reader_.Take().status()));
  skip(0, kRing);
  EXPECT_TRUE(absl::IsDataLoss(reader_.Take().status()));
  header() = good;
  ASSERT_TRUE(Take());
  reader_.Release();
  ASSERT_TRUE(Write("p", "b"));
  skip(good.extent, kRing - good.extent);
  EXPECT_FALSE(Take());
}

// Random mutations, with and without a checksum that fits: whatever is accepted lies in the ring.
TEST_F(SharedRingTest, RandomHeadersNeverLeadOutOfTheRing) {
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
      // Whole words of random size, so that the small values which nearly fit come up.
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
  // The check value of the algorithm, "123456789", cannot be asked for: this is 60 zero bytes.
  uint32_t crc = ~0u;
  for (int bit = 0; bit < 60 * 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
  EXPECT_EQ(HeaderCrc(SlotHeader{}), ~crc);
}

TEST_F(SharedRingTest, AWriterAndAReaderOnTwoThreadsNeverMissEachOther) {
  constexpr int kMessages = 20000;
  std::thread writing([&] {
    for (int i = 0; i < kMessages; ++i) {
      const std::string body = std::to_string(i);
      while (!Write(std::string(i % 700, 'p'), body)) {
        const Bell bell = writer_.room();
        bell.asleep->store(1);
        if (!bell.rung()) SleepUntilRung(bell, absl::Seconds(20));
        bell.asleep->store(0);
      }
    }
  });
  int read = 0;
  const absl::Time start = absl::Now();
  while (read < kMessages) {
    if (Take()) {
      ASSERT_EQ(reader_.body(), std::to_string(read));
      ++read;
      reader_.Release();
      continue;
    }
    const Bell bell = reader_.message();
    bell.asleep->store(1);
    if (!bell.rung()) SleepUntilRung(bell, absl::Seconds(20));
    bell.asleep->store(0);
  }
  writing.join();
  EXPECT_LT(absl::Now() - start, absl::Seconds(20)) << "a wake-up was lost";
}

}  // namespace
}  // namespace bastion::wire
