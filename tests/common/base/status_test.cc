#include "common/base/status.h"

#include <memory>

#include "gtest/gtest.h"

namespace bastion {
namespace {

absl::StatusOr<std::unique_ptr<int>> Half(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return std::make_unique<int>(value / 2);
}

absl::Status Check(int value) {
  RETURN_IF_ERROR(Half(value).status());
  return absl::OkStatus();
}

absl::StatusOr<int> Quarter(int value) {
  ASSIGN_OR_RETURN(const std::unique_ptr<int> half, Half(value));
  ASSIGN_OR_RETURN(const std::unique_ptr<int> quarter, Half(*half));
  return *quarter;
}

TEST(StatusTest, ReturnIfErrorStopsAtTheError) {
  EXPECT_TRUE(Check(4).ok());
  EXPECT_EQ(Check(3), absl::InvalidArgumentError("odd"));
}

TEST(StatusTest, AssignOrReturnMovesTheValueOut) {
  EXPECT_EQ(*Quarter(12), 3);
  EXPECT_EQ(Quarter(6).status(), absl::InvalidArgumentError("odd"));
  EXPECT_EQ(Quarter(5).status(), absl::InvalidArgumentError("odd"));
}

TEST(StatusTest, AnnotateKeepsTheCode) {
  EXPECT_EQ(Annotate(absl::NotFoundError("no file"), "loading"),
            absl::NotFoundError("loading: no file"));
  EXPECT_TRUE(Annotate(absl::OkStatus(), "loading").ok());
}

}  // namespace
}  // namespace bastion
