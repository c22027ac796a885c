#include "common/shm/device_ring.h"

#include <unistd.h>

#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

constexpr uint64_t kCapacity = 1024;

// Both ends of a ring. Host memory replaces the GPU's.
class DeviceRingTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto writer = DeviceRingWriter::Create(Descriptor(dup(0)), kCapacity, "a GPU");
    ASSERT_TRUE(writer.ok()) << writer.status();
    writer_ = *std::move(writer);
    auto reader = DeviceRingReader::Import(Ends(), Reader());
    ASSERT_TRUE(reader.ok()) << reader.status();
    reader_ = *std::move(reader);
  }
  DeviceRingEnds Ends() const {
    return {Descriptor(dup(writer_->descriptors().first)),
            Descriptor(dup(writer_->descriptors().second)), writer_->capacity()};
  }
  DeviceReader Reader() {
    return {"a GPU", DType::kF32, [this](const ExportedMemory& exported) {
              EXPECT_EQ(exported.bytes, kCapacity);
              imported_from_ = exported.uuid;
              return std::shared_ptr<const char>(memory_, [](auto*) {});
            }};
  }
  // Reserves `reserved` bytes and keeps `bytes`. Returns their position.
  uint64_t Write(uint64_t reserved, uint64_t bytes) {
    const auto position = writer_->Reserve(reserved);
    EXPECT_TRUE(position.has_value());
    writer_->Keep(bytes);
    return position.value_or(~uint64_t{0});
  }
  void ExpectHolds(uint64_t position, bool held) {
    EXPECT_EQ(writer_->Holds(position), held) << position;
    EXPECT_EQ(reader_->Holds(position), held) << position;
  }

  char memory_[kCapacity];
  std::string imported_from_;  // The GPU that the last import named.
  std::shared_ptr<DeviceRingWriter> writer_;
  std::shared_ptr<const DeviceRingReader> reader_;
};

TEST_F(DeviceRingTest, PiecesAreConsecutiveAndDoNotCrossTheEnd) {
  EXPECT_EQ(Write(512, 400), 0u);
  EXPECT_EQ(Write(400, 200), 400u);
  EXPECT_EQ(Write(500, 100), kCapacity);  // There were 424 bytes before the end.
  EXPECT_EQ(reader_->At(kCapacity + 16), memory_ + 16);
  EXPECT_EQ(Write(16, 3), kCapacity + 112);
  EXPECT_EQ(Write(16, 16), kCapacity + 128);  // Aligned.
}

TEST_F(DeviceRingTest, HoldsIsFalseForBytesThatMayBeOverwritten) {
  const uint64_t first = Write(512, 512), second = Write(256, 256);
  ExpectHolds(first, true);
  EXPECT_EQ(Write(256, 256), 768u);
  ExpectHolds(first, true);
  ASSERT_EQ(writer_->Reserve(16), kCapacity);  // A reservation counts as written.
  ExpectHolds(first, false);
  ExpectHolds(second, true);
  EXPECT_EQ(Write(512, 16), kCapacity);
  ExpectHolds(second, true);
  EXPECT_EQ(Write(512, 512), kCapacity + 16);
  ExpectHolds(second, false);
  // The bytes of a reservation that were not kept still count as written.
  ExpectHolds(kCapacity, true);
}

TEST_F(DeviceRingTest, ReserveRefusesMoreThanHalfOfTheRing) {
  EXPECT_FALSE(writer_->Reserve(kCapacity / 2 + 1).has_value());
  EXPECT_TRUE(writer_->Reserve(kCapacity / 2).has_value());
}

TEST_F(DeviceRingTest, CheckRefusesImpossiblePieces) {
  Write(512, 512);
  Write(512, 512);
  Write(256, 256);
  EXPECT_TRUE(reader_->Check(512, 512).ok());
  EXPECT_TRUE(reader_->Check(kCapacity, 256).ok());
  EXPECT_FALSE(reader_->Check(512, 528).ok());  // Across the end.
  EXPECT_FALSE(reader_->Check(kCapacity, 272).ok());
  EXPECT_FALSE(reader_->Check(8, 16).ok());
  EXPECT_FALSE(reader_->Check(~uint64_t{15}, 16).ok());
  EXPECT_FALSE(reader_->Check(16, ~uint64_t{0}).ok());
}

TEST_F(DeviceRingTest, HasAReaderUntilTheLastOneIsGone) {
  EXPECT_FALSE(writer_->has_reader());
  auto first = writer_->AddReader(), second = writer_->AddReader();
  first.reset();
  EXPECT_TRUE(writer_->has_reader());
  second.reset();
  EXPECT_FALSE(writer_->has_reader());
}

TEST_F(DeviceRingTest, ImportFailsIfTheMemoryCannotBeMapped) {
  DeviceReader reader = Reader();
  reader.import = [](const ExportedMemory&) { return absl::UnavailableError("no permission"); };
  EXPECT_EQ(DeviceRingReader::Import(Ends(), reader).status(),
            absl::UnavailableError("no permission"));
  DeviceRingEnds ends = Ends();
  ends.counters = Descriptor(dup(0));
  EXPECT_FALSE(DeviceRingReader::Import(std::move(ends), Reader()).ok());
}

TEST_F(DeviceRingTest, TheReaderKnowsWhichGpuHasTheRing) {
  EXPECT_EQ(imported_from_, "a GPU") << "if the writer names none, it is an older release";
  EXPECT_FALSE(reader_->on_peer());
  for (const std::string gpu : {"a GPU", "another GPU"}) {
    DeviceRingEnds ends = Ends();
    ends.uuid = gpu;
    const auto reader = DeviceRingReader::Import(std::move(ends), Reader());
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_EQ(imported_from_, gpu);
    EXPECT_EQ((*reader)->on_peer(), gpu == "another GPU");
  }
}

TEST_F(DeviceRingTest, AReaderOutlivesTheWriter) {
  Write(512, 512);
  writer_.reset();
  EXPECT_TRUE(reader_->Holds(0));
  EXPECT_TRUE(reader_->Check(0, 512).ok());
}

}  // namespace
}  // namespace bastion::wire
