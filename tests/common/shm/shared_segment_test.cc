// Tests what a peer can and cannot do with a segment's descriptor.
#include "common/shm/shared_segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

using ::testing::HasSubstr;

constexpr size_t kBytes = 8192;

SharedSegment Make() {
  auto segment = SharedSegment::Create(kBytes);
  EXPECT_TRUE(segment.ok()) << segment.status();
  return *std::move(segment);
}
Descriptor Copy(const SharedSegment& segment) { return Descriptor(dup(segment.descriptor())); }

TEST(SharedSegmentTest, ThePeerReadsWhatTheOwnerWrites) {
  const SharedSegment mine = Make();
  const auto theirs = SharedSegment::Map(Copy(mine), kBytes);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_EQ(theirs->data()[4711], 0);
  std::strcpy(mine.data() + 4711, "news");
  EXPECT_STREQ(theirs->data() + 4711, "news");
}

TEST(SharedSegmentTest, ThePeerCanNeitherWriteNorResize) {
  const SharedSegment mine = Make();
  EXPECT_EQ(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, mine.descriptor(), 0),
            MAP_FAILED);
  EXPECT_NE(ftruncate(mine.descriptor(), 0), 0);
  EXPECT_NE(ftruncate(mine.descriptor(), 2 * kBytes), 0);
  EXPECT_EQ(write(mine.descriptor(), "x", 1), -1);
  EXPECT_NE(fcntl(mine.descriptor(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  const auto theirs = SharedSegment::Map(Copy(mine), kBytes);
  ASSERT_TRUE(theirs.ok()) << theirs.status();
  EXPECT_NE(mprotect(theirs->data(), kBytes, PROT_READ | PROT_WRITE), 0);
}

TEST(SharedSegmentTest, MapRefusesMemoryThatLacksASeal) {
  constexpr int kAll = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE, F_SEAL_SEAL, kAll}) {
    Descriptor loose(memfd_create("loose", MFD_ALLOW_SEALING));
    ASSERT_EQ(ftruncate(loose.get(), kBytes), 0);
    ASSERT_EQ(fcntl(loose.get(), F_ADD_SEALS, kAll & ~missing), 0);
    const absl::Status status = SharedSegment::Map(std::move(loose), kBytes).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("not sealed"));
  }
}

TEST(SharedSegmentTest, MapRefusesOtherFiles) {
  EXPECT_FALSE(SharedSegment::Map(Descriptor(open("/dev/zero", O_RDONLY)), kBytes).ok());
  EXPECT_FALSE(SharedSegment::Map(Descriptor(), kBytes).ok());
}

TEST(SharedSegmentTest, MapRefusesADifferentSize) {
  const SharedSegment mine = Make();
  for (const size_t announced : {kBytes - 1, kBytes + 1, 2 * kBytes, size_t{0}}) {
    const absl::Status status = SharedSegment::Map(Copy(mine), announced).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(status.message(), HasSubstr("8192 bytes"));
  }
}

}  // namespace
}  // namespace bastion::wire
