#include "common/access/address_list.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

IpAddress Ip(const char* text) {
  const auto parsed = ParseIpAddress(text);
  EXPECT_TRUE(parsed) << text;
  return parsed.value_or(IpAddress());
}

TEST(AddressListTest, MappedAddressesEqualTheirIpv4Address) {
  EXPECT_EQ(Ip("10.1.2.3"), Ip("::ffff:10.1.2.3"));
  EXPECT_EQ(Ip("fe80::1%eth0"), Ip("fe80::1"));
  EXPECT_FALSE(ParseIpAddress("10.1.2"));
  EXPECT_FALSE(ParseIpAddress("localhost"));
  EXPECT_FALSE(ParseIpAddress(""));
}

TEST(AddressListTest, AListContainsItsAddressesAndNetworks) {
  const auto list = AddressList::Parse({"10.0.0.0/8", "192.168.1.7", "2001:db8::/33"});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_TRUE(list->Contains(Ip("10.200.0.1")));
  EXPECT_TRUE(list->Contains(Ip("::ffff:10.200.0.1")));
  EXPECT_FALSE(list->Contains(Ip("11.0.0.1")));
  EXPECT_TRUE(list->Contains(Ip("192.168.1.7")));
  EXPECT_FALSE(list->Contains(Ip("192.168.1.8")));
  EXPECT_TRUE(list->Contains(Ip("2001:db8:7fff::1")));
  EXPECT_FALSE(list->Contains(Ip("2001:db8:8000::1")));
  EXPECT_FALSE(AddressList().Contains(Ip("::1")));
}

TEST(AddressListTest, ANetworkOfZeroBitsContainsItsProtocol) {
  const auto list = AddressList::Parse({"0.0.0.0/0"});
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_TRUE(list->Contains(Ip("8.8.8.8")));
  EXPECT_FALSE(list->Contains(Ip("2001:db8::1")));
}

TEST(AddressListTest, WrongItemsAreNamed) {
  for (const char* wrong : {"", "host", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "10.0.0.0/8/8",
                            "::1/129", "10.0.0.1:80"}) {
    const absl::Status status = AddressList::Parse({"::1", wrong}).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << wrong;
    EXPECT_THAT(std::string(status.message()),
                ::testing::HasSubstr("\"" + std::string(wrong) + "\""));
  }
}

}  // namespace
}  // namespace bastion
