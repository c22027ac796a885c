#include "orchestrator/intake/constraint_cache.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

class NoConstraint final : public TokenConstraint {
 public:
  explicit NoConstraint(size_t bytes = 0) : bytes_(bytes) {}
  absl::StatusOr<std::unique_ptr<TokenConstraint>> Copy() const override {
    return std::make_unique<NoConstraint>();
  }
  absl::StatusOr<TokenSet> Allowed() override { return TokenSet(1); }
  std::vector<TokenId> Forced() override { return {}; }
  absl::Status Push(TokenId) override { return absl::OkStatus(); }
  absl::Status Pop(int) override { return absl::OkStatus(); }
  bool complete() const override { return false; }
  size_t bytes() const override { return bytes_; }

 private:
  const size_t bytes_;
};

class ConstraintCacheTest : public ::testing::Test {
 protected:
  ConstraintCache::Constraint Get(const std::string& key, const std::string& client = "") {
    auto constraint = cache_.Get(key, {.client = client}, Compile());
    EXPECT_TRUE(constraint.ok()) << key << ": " << constraint.status();
    return *constraint;
  }
  std::function<absl::StatusOr<ConstraintCache::Constraint>()> Compile(size_t bytes = 0) {
    return [this, bytes] {
      ++compiled_;
      return std::make_shared<NoConstraint>(bytes);
    };
  }

  ConstraintCache cache_;
  int compiled_ = 0;
};

TEST_F(ConstraintCacheTest, RequestsWithTheSameConstraintShareOne) {
  const auto first = Get("a"), second = Get("a"), other = Get("b");
  EXPECT_EQ(first, second);
  EXPECT_NE(first, other);
  EXPECT_EQ(compiled_, 2);
}

TEST_F(ConstraintCacheTest, ALaterRequestFindsTheConstraintOfAnEarlierOne) {
  Get("a");
  Get("a");
  EXPECT_EQ(compiled_, 1);
}

TEST_F(ConstraintCacheTest, TheLatestUnusedConstraintsAreKept) {
  const size_t count = ConstraintCache::kMaxUnused + 1;
  for (size_t i = 0; i < count; ++i) Get(absl::StrCat(i));
  Get("0");  // Makes it the latest.
  Get("new");
  Get("newer");
  const int compiled = compiled_;
  Get("0");
  EXPECT_EQ(compiled_, compiled);
  Get("1");
  EXPECT_EQ(compiled_, compiled + 1) << "it was dropped";
}

TEST_F(ConstraintCacheTest, TheNumberOfUsedConstraintsIsLimited) {
  std::vector<ConstraintCache::Constraint> used;
  for (size_t i = 0; i < ConstraintCache::kMaxUsed; ++i) {
    used.push_back(Get(absl::StrCat(i), absl::StrCat("client ", i)));
  }
  const int compiled = compiled_;
  const absl::Status refused = cache_.Get("one more", {}, Compile()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(RetryDelay(refused).has_value());
  EXPECT_EQ(compiled_, compiled) << "a constraint that is refused must cost nothing";
  EXPECT_EQ(Get("7"), used[7]) << "it is shared";
  used.pop_back();
  Get("one more");
}

TEST_F(ConstraintCacheTest, AClientThatTakesAllItCanLeavesRoomForOthers) {
  std::vector<ConstraintCache::Constraint> used;
  const auto take_all = [&](const std::string& client) {
    size_t taken = 0;
    while (true) {
      auto constraint = cache_.Get(absl::StrCat(client, taken), {.client = client}, Compile());
      if (!constraint.ok()) return taken;
      used.push_back(*constraint);
      ++taken;
    }
  };
  EXPECT_EQ(take_all("a"), ConstraintCache::kMaxUsed / 2);
  EXPECT_EQ(take_all("b"), ConstraintCache::kMaxUsed / 4);
  EXPECT_EQ(take_all("c"), ConstraintCache::kMaxUsed / 8);
}

TEST_F(ConstraintCacheTest, AHostWithManyNamesLeavesRoomForOthers) {
  std::vector<ConstraintCache::Constraint> used;
  const auto take_all = [&](const std::string& origin) {
    for (size_t taken = 0;; ++taken) {
      const std::string name = absl::StrCat(origin, taken);
      auto constraint = cache_.Get(name, {.client = name, .origin = origin}, Compile());
      if (!constraint.ok()) return taken;
      used.push_back(*constraint);
    }
  };
  EXPECT_EQ(take_all("192.0.2.1"), ConstraintCache::kMaxUsed * 3 / 4);
  EXPECT_GE(take_all("192.0.2.2"), ConstraintCache::kMaxUsed / 8);
}

TEST_F(ConstraintCacheTest, TheMemoryOfUsedConstraintsIsLimited) {
  constexpr size_t kBytes = ConstraintCache::kMaxUsedBytes / 4;
  const auto get = [&](const char* key, const char* client) {
    return cache_.Get(key, {.client = client}, Compile(kBytes));
  };
  auto first = get("1", "a"), second = get("2", "a"), third = get("3", "b");
  ASSERT_TRUE(first.ok() && second.ok() && third.ok()) << second.status() << third.status();
  EXPECT_TRUE(absl::IsResourceExhausted(get("4", "a").status())) << "it has half already";
  EXPECT_TRUE(get("4", "c").ok());
}

TEST_F(ConstraintCacheTest, LargeUnusedConstraintsAreDropped) {
  const auto get = [&](const char* key) {
    return cache_.Get(key, {}, Compile(ConstraintCache::kMaxUnusedBytes / 2 + 1));
  };
  ASSERT_TRUE(get("1").ok() && get("2").ok() && get("3").ok());
  const int compiled = compiled_;
  ASSERT_TRUE(get("3").ok());
  EXPECT_EQ(compiled_, compiled);
  ASSERT_TRUE(get("1").ok());
  EXPECT_EQ(compiled_, compiled + 1) << "it was dropped";
}

TEST_F(ConstraintCacheTest, AConstraintCanBeFoundWithoutCompiling) {
  const auto none = cache_.Find("a", {});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_EQ(*none, nullptr);
  const auto compiled = Get("a");
  EXPECT_EQ(*cache_.Find("a", {}), compiled);
}

TEST_F(ConstraintCacheTest, AKeptConstraintCountsForTheClientThatUsesItNext) {
  Get("kept", "a");
  std::vector<ConstraintCache::Constraint> used;
  for (size_t i = 0; i < ConstraintCache::kMaxUsed / 2; ++i) used.push_back(Get(absl::StrCat(i)));
  const absl::Status refused = cache_.Get("kept", {}, Compile()).status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  used.pop_back();
  used.push_back(Get("kept"));
  EXPECT_TRUE(absl::IsResourceExhausted(cache_.Get("one more", {}, Compile()).status()));
}

TEST_F(ConstraintCacheTest, AnErrorOfTheCompilerIsReturnedAndNotKept) {
  const auto fails = [] {
    return absl::StatusOr<ConstraintCache::Constraint>(absl::InvalidArgumentError("bad"));
  };
  EXPECT_TRUE(absl::IsInvalidArgument(cache_.Get("a", {}, fails).status()));
  EXPECT_NE(Get("a"), nullptr);
}

}  // namespace
}  // namespace bastion
