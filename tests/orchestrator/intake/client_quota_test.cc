#include "orchestrator/intake/client_quota.h"

#include <optional>

#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(ClientQuotaTest, EachClientHasItsOwnLimit) {
  ClientQuota quota(2);
  std::optional<absl::StatusOr<ClientQuota::Call>> first = quota.Enter("a");
  const auto second = quota.Enter("a");
  EXPECT_TRUE((*first).ok() && second.ok());
  const absl::Status refused = quota.Enter("a").status();
  EXPECT_TRUE(absl::IsResourceExhausted(refused)) << refused;
  EXPECT_TRUE(RetryDelay(refused).has_value());
  EXPECT_TRUE(IsForClient(refused));
  EXPECT_TRUE(quota.Enter("b").ok());
  EXPECT_TRUE(quota.Enter("").ok());
  first.reset();
  EXPECT_TRUE(quota.Enter("a").ok());
}

TEST(ClientQuotaTest, ZeroIsNoLimit) {
  ClientQuota quota(0);
  std::vector<absl::StatusOr<ClientQuota::Call>> calls;
  for (int i = 0; i < 100; ++i) calls.push_back(quota.Enter("a"));
  for (const auto& call : calls) EXPECT_TRUE(call.ok());
}

}  // namespace
}  // namespace bastion
