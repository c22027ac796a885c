#include "common/host/connection_table.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

using Admission = ConnectionTable::Admission;

// Both ends of a connection over loopback, and the name that gRPC has for the client.
class Pair {
 public:
  Pair() : client_(socket(AF_INET, SOCK_STREAM, 0)) {
    const Descriptor listener(socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t bytes = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener.get(), any, bytes), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), any, &bytes), 0);
    EXPECT_EQ(connect(client_.get(), any, bytes), 0);
    server_ = Descriptor(accept(listener.get(), any, &bytes));
    peer_ = absl::StrCat("ipv4:127.0.0.1:", ntohs(address.sin_port));
  }

  [[nodiscard]] int server() const { return server_.get(); }
  [[nodiscard]] const std::string& peer() const { return peer_; }
  // As gRPC does at the end of a connection.
  void CloseServer() { server_ = Descriptor(); }
  // True if the table has ended the connection.
  [[nodiscard]] bool Ended() const {
    char byte = 0;
    return recv(client_.get(), &byte, 1, MSG_DONTWAIT) == 0;
  }

 private:
  Descriptor client_, server_;
  std::string peer_;
};

class ConnectionTableTest : public ::testing::Test {
 protected:
  ConnectionTableTest() { EXPECT_TRUE(table_.Prepare(2).ok()); }
  ConnectionTable table_;
};

TEST_F(ConnectionTableTest, AConnectionThatStaysOpenWhenItIsEndedKeepsItsPlace) {
  Pair first, second, third;
  ASSERT_EQ(table_.Admit(first.server()), Admission::kAdmitted);
  ASSERT_EQ(table_.Admit(second.server()), Admission::kAdmitted);
  EXPECT_EQ(table_.Admit(third.server()), Admission::kRefused) << "the first one is still open";
  EXPECT_TRUE(first.Ended());
  EXPECT_FALSE(second.Ended());
  first.CloseServer();
  absl::SleepFor(absl::Milliseconds(50));  // The table looks for closed connections now and then.
  EXPECT_EQ(table_.Admit(third.server()), Admission::kAdmitted);
}

TEST_F(ConnectionTableTest, TheEndOfACallDoesNotCountForALaterConnectionWithTheSameNumber) {
  auto first = std::make_unique<Pair>();
  ASSERT_EQ(table_.Admit(first->server()), Admission::kAdmitted);
  const ConnectionTable::Id call = table_.BeginCall(first->peer());
  EXPECT_EQ(call.descriptor, first->server());
  first.reset();
  Pair second;
  ASSERT_EQ(table_.Admit(second.server()), Admission::kAdmitted);
  (void)table_.BeginCall(second.peer());
  table_.EndCall(call);
  Pair third, fourth;
  (void)table_.Admit(third.server());
  (void)table_.BeginCall(third.peer());
  EXPECT_EQ(table_.Admit(fourth.server()), Admission::kRefused) << "both have calls";
}

TEST_F(ConnectionTableTest, PeersThatItDoesNotKnowHaveNoConnection) {
  for (const char* peer :
       {"", "unix:", "ipv4:127.0.0.1:1", "ipv6:%5B::1%5D:1", "ipv6:%5Bfe80::1%25"}) {
    EXPECT_EQ(table_.BeginCall(peer).cookie, 0) << peer;
    table_.EndCall(table_.BeginCall(peer));
  }
}

TEST(CancelBudgetTest, ABurstIsAllowedAndFillsWithTime) {
  constexpr auto kBurst = static_cast<int64_t>(CancelBudget::kBurst);
  constexpr auto kPerSecond = static_cast<int64_t>(CancelBudget::kPerSecond);
  CancelBudget budget;
  absl::Duration now = absl::Hours(5);
  EXPECT_TRUE(budget.Allows(kBurst, now));
  now += absl::Seconds(1);
  EXPECT_TRUE(budget.Allows(kBurst + kPerSecond, now));
  now += absl::Seconds(1);
  EXPECT_FALSE(budget.Allows(kBurst + 2 * kPerSecond + 1, now));
}

TEST(CancelBudgetTest, CallsCanceledOverALongTimeAreAllowedButLeaveNoMoreThanABurst) {
  constexpr auto kBurst = static_cast<int64_t>(CancelBudget::kBurst);
  CancelBudget budget;
  absl::Duration now = absl::Hours(5);
  EXPECT_TRUE(budget.Allows(0, now));
  now += absl::Hours(1);
  EXPECT_TRUE(budget.Allows(100'000, now));
  EXPECT_FALSE(budget.Allows(100'000 + kBurst + 1, now));
}

TEST(CancelBudgetTest, CallsThatAreAnsweredCostNothing) {
  CancelBudget budget;
  for (int i = 0; i < 1000; ++i) {
    EXPECT_TRUE(budget.Allows(128, absl::ZeroDuration()));
    EXPECT_TRUE(budget.Allows(0, absl::ZeroDuration()));
  }
}

TEST_F(ConnectionTableTest, CallsBeginAndEndOnOtherThreads) {
  ConnectionTable large;
  ASSERT_TRUE(large.Prepare(100).ok());
  Pair first;
  ASSERT_EQ(large.Admit(first.server()), Admission::kAdmitted);
  std::atomic<bool> stop = false;
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!stop) large.EndCall(large.BeginCall(first.peer()));
    });
  }
  std::vector<Pair> others(50);
  for (const Pair& other : others) EXPECT_EQ(large.Admit(other.server()), Admission::kAdmitted);
  stop = true;
  for (std::thread& caller : callers) caller.join();
}

}  // namespace
}  // namespace bastion::wire
