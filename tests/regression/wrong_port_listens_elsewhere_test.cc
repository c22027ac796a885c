// --listen 127.0.0.1:99999 listened on port 34463, the last 16 bits of the number, and the log said
// 99999.
#include "common/host/listener.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::wire {
namespace {

TEST(WrongPortListensElsewhereTest, APortAbove65535IsRefused) {
  for (const char* address : {"127.0.0.1:99999", "127.0.0.1:65536", "ipv4:127.0.0.1:99999"}) {
    const auto listener = Listener::Open({address}, {});
    EXPECT_FALSE(listener.ok()) << (*listener)->port();
    EXPECT_THAT(std::string(listener.status().message()), ::testing::HasSubstr("from 0 to 65535"));
  }
}

}  // namespace
}  // namespace bastion::wire
