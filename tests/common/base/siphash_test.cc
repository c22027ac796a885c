#include "common/base/siphash.h"

#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

// The hash of the bytes 0, 1, …, count - 1 under the key 00 01 … 0f, in hexadecimal.
std::string HashOfBytes(int count) {
  std::string data;
  for (int i = 0; i < count; ++i) data.push_back(static_cast<char>(i));
  const Bits128 hash = SipHash128({0x0706050403020100, 0x0f0e0d0c0b0a0908}, data);
  return absl::BytesToHexString({reinterpret_cast<const char*>(&hash), sizeof hash});
}

// The values of OpenSSL: openssl mac -macopt hexkey:000102…0f -macopt size:16 -in FILE SIPHASH
TEST(SipHashTest, EqualsTheReferenceForEveryLengthOfTheLastWord) {
  EXPECT_EQ(HashOfBytes(0), "a3817f04ba25a8e66df67214c7550293");
  EXPECT_EQ(HashOfBytes(1), "da87c1d86b99af44347659119b22fc45");
  EXPECT_EQ(HashOfBytes(8), "3b62a9ba6258f5610f83e264f31497b4");
  EXPECT_EQ(HashOfBytes(15), "5493e99933b0a8117e08ec0f97cfc3d9");
  EXPECT_EQ(HashOfBytes(63), "5150d1772f50834a503e069a973fbd7c");
}

TEST(SipHashTest, EveryKeyIsNew) { EXPECT_FALSE(RandomKey() == RandomKey()); }

}  // namespace
}  // namespace bastion
