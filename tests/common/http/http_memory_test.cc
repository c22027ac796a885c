// Tests the HTTP server while the process runs out of memory.
#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>

#include "common/http/http_server.h"
#include "gtest/gtest.h"
#include "tests/support/http_client.h"

namespace {

// Counts down with the allocations of all threads but the test's. The one that reaches 0 fails.
std::atomic<int> until_failure{0};
thread_local bool is_test = false;

void* Allocate(size_t bytes) {
  if (!is_test && until_failure > 0 && until_failure.fetch_sub(1) == 1) return nullptr;
  return std::malloc(bytes);
}

}  // namespace

// GCC does not see that these belong together where it inlines only one of them.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(size_t bytes) {
  void* const memory = Allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace bastion {
namespace {

TEST(HttpMemoryTest, AFailedAllocationEndsOnlyItsConnection) {
  is_test = true;
  HttpOptions options;
  options.listen = "127.0.0.1:0";
  const auto echo = [](const HttpRequest& request, HttpResponse& response) {
    response.Send(200, "text/plain", request.body);
  };
  const auto server = HttpServer::Start(options, {{"POST", "/", echo}});
  ASSERT_TRUE(server.ok()) << server.status();
  int failed = 0;
  for (int allocation = 1; allocation <= 60; ++allocation) {
    until_failure = allocation;
    failed += testing::Fetch((*server)->port(), "/", "", "POST", "text").status != 200;
    until_failure = 0;
    ASSERT_EQ(testing::Fetch((*server)->port(), "/", "", "POST", "text").body, "text");
  }
  EXPECT_GT(failed, 3);
}

}  // namespace
}  // namespace bastion
