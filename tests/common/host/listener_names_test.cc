// Tests host names that cannot be had from the machine's own settings, with another getaddrinfo.
#include <dlfcn.h>
#include <netdb.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstring>

#include "common/host/listener.h"
#include "gtest/gtest.h"

// The addresses of "twice" are those of a host that has two lines in /etc/hosts.
extern "C" int getaddrinfo(const char* host, const char* port, const addrinfo* hints,
                           addrinfo** results) {
  static const auto original =
      reinterpret_cast<decltype(&getaddrinfo)>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host == nullptr || std::strcmp(host, "twice") != 0) {
    return original(host, port, hints, results);
  }
  const int failed = original("127.0.0.1", port, hints, results);
  return failed != 0 ? failed : original("127.0.0.1", port, hints, &(*results)->ai_next);
}

namespace bastion::wire {
namespace {

TEST(ListenerNamesTest, AHostMayHaveTheSameAddressTwice) {
  const auto listener = Listener::Open({"twice:0"}, {});
  ASSERT_TRUE(listener.ok()) << listener.status();
  EXPECT_GT((*listener)->port(), 0);
}

TEST(ListenerNamesTest, ALackOfDescriptorsIsNamed) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);
  close(next);
  const rlimit none_left = {static_cast<rlim_t>(next), limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none_left), 0);
  const absl::Status status = Listener::Open({"127.0.0.1:0"}, {}).status();
  setrlimit(RLIMIT_NOFILE, &limit);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find("Too many open files"), std::string::npos) << status;
}

}  // namespace
}  // namespace bastion::wire
