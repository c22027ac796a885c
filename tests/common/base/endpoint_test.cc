#include "common/base/endpoint.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

TEST(CheckPortsTest, ValidAddressesPass) {
  for (const char* address :
       {"127.0.0.1:0", "127.0.0.1:65535", "host:7070", "[::1]:80", ":7070", "host", "[::1]", "::1",
        "unix:///run/a.sock:99999", "unix:a:b", "unix-abstract:name:99999", "dns:///host:80",
        "dns://8.8.8.8:53/host:80", "dns:host:80", "ipv4:1.2.3.4:80,1.2.3.5:81", "ipv6:[::1]:80",
        "unix:///a,host:80", ""}) {
    EXPECT_TRUE(CheckPorts(address).ok()) << address << CheckPorts(address);
  }
}

TEST(CheckPortsTest, WrongPortsAreNamed) {
  for (const char* address :
       {"host:65536", "127.0.0.1:99999", "[::1]:99999", "host:", "host:-1", "host:+80", "host: 80",
        "host:80x", "host:4294967376", "dns:///host:99999", "ipv4:1.2.3.4:80,1.2.3.5:99999",
        "ipv6:[::1]:x", "unix:///a,host:99999"}) {
    const absl::Status status = CheckPorts(address);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << address;
    EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr("from 0 to 65535"));
  }
}

}  // namespace
}  // namespace bastion
