#include "engine/model/buffer.h"

#include <algorithm>
#include <cstdint>

#include "gtest/gtest.h"

namespace bastion::nn {
namespace {

TEST(BufferTest, AllocatedMemoryIsAlignedForVectors) {
  for (const size_t bytes : {size_t{1}, size_t{64}, size_t{1000}}) {
    const Buffer buffer = Buffer::Allocate(bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer.data()) % 64, 0u) << bytes;
    std::fill_n(buffer.as<char>(), bytes, 'x');
    EXPECT_EQ(buffer.as<char>()[bytes - 1], 'x');
  }
}

TEST(BufferTest, PagesAreZeroed) {
  for (const Paging paging : {Paging::kSmall, Paging::kHuge}) {
    const size_t bytes = (size_t{4} << 20) + 100;
    const Buffer buffer = Buffer::Pages(bytes, paging);
    EXPECT_EQ(std::count(buffer.as<char>(), buffer.as<char>() + bytes, 0),
              static_cast<std::ptrdiff_t>(bytes));
  }
}

TEST(BufferTest, AnEmptyBufferAllocatesNothing) {
  EXPECT_EQ(Buffer().data(), nullptr);
  EXPECT_EQ(Buffer::Pages(0, Paging::kSmall).data(), nullptr);
}

TEST(BufferTest, AllocatingMoreThanTheAddressSpaceThrows) {
  EXPECT_THROW((void)Buffer::Pages(size_t{1} << 62, Paging::kSmall), std::bad_alloc);
}

TEST(BufferTest, CopiesShareTheMemory) {
  const Buffer buffer = Buffer::Allocate(4);
  const Buffer copy = buffer;
  buffer.as<int>()[0] = 7;
  EXPECT_EQ(copy.as<int>()[0], 7);
}

TEST(BufferTest, BorrowedMemoryLivesAsLongAsTheLastCopy) {
  auto owner = std::make_shared<const int>(3);
  const std::weak_ptr<const int> watched = owner;
  Buffer buffer = Buffer::Borrow(owner.get(), owner);
  owner.reset();
  Buffer copy = buffer;
  buffer = Buffer();
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(*copy.as<int>(), 3);
  copy = Buffer();
  EXPECT_TRUE(watched.expired());
}

TEST(ScratchTest, KeepsItsMemoryUntilMoreIsNeeded) {
  Scratch scratch;
  float* const first = scratch.Reserve(4, 8);
  first[31] = 1;
  EXPECT_EQ(scratch.Reserve(2, 8), first);
  EXPECT_EQ(scratch.Reserve(8, 4), first);
  float* const larger = scratch.Reserve(40, 80);
  larger[40 * 80 - 1] = 2;
  EXPECT_EQ(scratch.Reserve(4, 8), larger);
}

}  // namespace
}  // namespace bastion::nn
