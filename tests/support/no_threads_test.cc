#include <gtest/gtest.h>

#include <thread>

namespace bastion {
namespace {

TEST(NoThreadsDeathTest, ATestThatTheListDoesNotNameStopsWhenItStartsAThread) {
  EXPECT_DEATH(std::thread([] {}).join(), "add its name to tests/threaded_tests.txt");
}

}  // namespace
}  // namespace bastion
