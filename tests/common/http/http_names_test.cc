#include "common/http/http_names.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(HttpNamesTest, ATargetHasADecodedPathAndQuery) {
  const auto target = ParseTarget("/a%20b/c?x=1&y=%26+z&flag&x=2");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->path, "/a b/c");
  EXPECT_THAT(target->query, ElementsAre(Pair("flag", ""), Pair("x", "2"), Pair("y", "& z")));
  EXPECT_EQ(ParseTarget("/a+b")->path, "/a+b");
}

TEST(HttpNamesTest, AUrlHasAHost) {
  const auto target = ParseTarget("http://host:80/a%20b?x=1");
  ASSERT_TRUE(target);
  EXPECT_EQ(target->host, "host:80");
  EXPECT_EQ(target->path, "/a b");
  EXPECT_THAT(target->query, ElementsAre(Pair("x", "1")));
  EXPECT_EQ(ParseTarget("https://host")->path, "/");
  EXPECT_EQ(ParseTarget("https://host?x=1")->path, "/");
  EXPECT_EQ(ParseTarget("HTTP://[::1]/a")->host, "[::1]");
  EXPECT_EQ(ParseTarget("http:///a")->host, "");
  EXPECT_FALSE(ParseTarget("/a")->host);
}

TEST(HttpNamesTest, OtherTargetsAreRefused) {
  for (const char* target : {"", "a", "*", "ftp://host/a", "host:443", "/%", "/%1", "/%zz",
                             "/?x=%f", "http://host/%zz"}) {
    EXPECT_FALSE(ParseTarget(target)) << target;
  }
}

TEST(HttpNamesTest, HostAndPortAreSplit) {
  EXPECT_EQ(*SplitHostPort("a.example:80"), std::make_pair(std::string("a.example"), 80));
  EXPECT_EQ(*SplitHostPort("10.1.2.3"), std::make_pair(std::string("10.1.2.3"), -1));
  EXPECT_EQ(*SplitHostPort("[::1]:0"), std::make_pair(std::string("::1"), 0));
  for (const char* text : {"", ":80", "a:", "a:b", "a:-1", "a:65536", "[::1", "[::1]80", "::1"}) {
    EXPECT_FALSE(SplitHostPort(text)) << text;
  }
}

// A page whose name resolves to this machine sends that name.
TEST(HttpNamesTest, OnlyAddressesAndOwnNamesAreOwnHosts) {
  const std::vector<std::string> names = {"bastion.example"};
  for (const char* host : {"localhost:80", "LOCALHOST", "127.0.0.1:9", "10.0.0.7", "[::1]:80",
                           "bastion.example", "Bastion.Example:80"}) {
    EXPECT_TRUE(IsOwnHost(host, names)) << host;
  }
  for (const char* host : {"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                           "bastion.example.evil", "127.1.1", "1.2.3.4.5"}) {
    EXPECT_FALSE(IsOwnHost(host, names)) << host;
  }
}

TEST(HttpNamesTest, AnOriginIsOwnOnlyIfHostAndPortAreEqual) {
  EXPECT_TRUE(IsSameOrigin("http://localhost:80", "localhost:80"));
  EXPECT_TRUE(IsSameOrigin("https://Bastion.example", "bastion.example"));
  for (const char* origin : {"", "null", "http://localhost:81", "http://localhost",
                             "http://localhost:80/", "ftp://localhost:80"}) {
    EXPECT_FALSE(IsSameOrigin(origin, "localhost:80")) << origin;
  }
}

}  // namespace
}  // namespace bastion
