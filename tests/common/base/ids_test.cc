#include "common/base/ids.h"

#include <sstream>

#include "absl/hash/hash_testing.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(SequenceIdTest, ComparesBySessionThenEpoch) {
  const SequenceId first = {1, 2};
  EXPECT_EQ(first, (SequenceId{1, 2}));
  EXPECT_LT(first, (SequenceId{1, 3}));
  EXPECT_LT((SequenceId{1, 3}), (SequenceId{2, 0}));
}

TEST(SequenceIdTest, HashAgreesWithEquality) {
  EXPECT_TRUE(absl::VerifyTypeImplementsAbslHashCorrectly(
      {SequenceId{0, 0}, SequenceId{1, 0}, SequenceId{0, 1}, SequenceId{7, 9}}));
}

TEST(SequenceIdTest, PrintsSessionAtEpoch) {
  std::ostringstream out;
  out << SequenceId{42, 3};
  EXPECT_EQ(out.str(), "42@3");
}

}  // namespace
}  // namespace bastion
