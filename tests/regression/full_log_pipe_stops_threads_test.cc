// A log that went to a pipe that was not read stopped every thread that logged, once the pipe was
// full: 64 KiB of lines.
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <future>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/log_writer.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

constexpr char kDropped[] = "log lines dropped: ";
// More than the pipe and the queue hold.
constexpr int kTooMany = 50000;

// Stderr is a pipe while this lives.
class FullLogPipeStopsThreadsTest : public ::testing::Test {
 protected:
  FullLogPipeStopsThreadsTest() : stderr_(dup(STDERR_FILENO)) {
    int ends[2];
    CHECK_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end_ = ends[0];
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
  }
  ~FullLogPipeStopsThreadsTest() override {
    Restore();
    close(read_end_);
  }

  void Restore() {
    if (stderr_ < 0) return;
    dup2(stderr_, STDERR_FILENO);
    close(stderr_);
    stderr_ = -1;
  }

  // Reads until a line ends with `last`, or to the end of the pipe.
  std::vector<std::string> ReadLines(const std::string& last) const {
    std::string all;
    char buffer[1 << 16];
    ssize_t count = 0;
    while (all.find(last + "\n") == std::string::npos &&
           (count = read(read_end_, buffer, sizeof buffer)) > 0) {
      all.append(buffer, static_cast<size_t>(count));
    }
    return absl::StrSplit(all, '\n', absl::SkipEmpty());
  }

  static void LogLines(int count) {
    for (int i = 0; i < count; ++i) LOG(INFO) << "line " << i;
  }

 private:
  int stderr_;
  int read_end_ = -1;
};

TEST_F(FullLogPipeStopsThreadsTest, LinesThatDoNotFitAreDroppedAndCounted) {
  base::LogWriter writer;
  const auto logging = std::async(std::launch::async, [] { LogLines(kTooMany); });
  const bool blocked = logging.wait_for(std::chrono::seconds(10)) == std::future_status::timeout;
  std::future<std::vector<std::string>> reading =
      std::async(std::launch::async, [this] { return ReadLines("the end"); });
  logging.wait();
  base::FlushLog();
  LOG(INFO) << "the end";
  int written = 0, dropped = 0;
  for (const std::string& line : reading.get()) {
    if (line.find("] line ") != std::string::npos) ++written;
    const size_t found = line.find(kDropped);
    if (found == std::string::npos) continue;
    const std::string count = line.substr(found + sizeof kDropped - 1);
    int part = 0;
    EXPECT_TRUE(absl::SimpleAtoi(count.substr(0, count.find(';')), &part)) << line;
    dropped += part;
  }
  EXPECT_FALSE(blocked);
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(written + dropped, kTooMany);
}

TEST_F(FullLogPipeStopsThreadsTest, TheEndOfTheProcessDoesNotWaitForAReaderForLong) {
  StopWatch watch;
  {
    base::LogWriter writer;
    LogLines(kTooMany);
  }
  LOG(INFO) << "not even now";
  EXPECT_LT(watch.Lap(), absl::Seconds(15));
  // Lets the thread that hangs in a write go on, for the other tests.
  std::future<std::vector<std::string>> reading =
      std::async(std::launch::async, [this] { return ReadLines("the end"); });
  base::LogWriter writer;
  base::FlushLog();
  LOG(INFO) << "the end";
  reading.wait();
}

TEST_F(FullLogPipeStopsThreadsTest, NothingIsLostAtTheEndIfTheLogIsRead) {
  std::future<std::vector<std::string>> reading =
      std::async(std::launch::async, [this] { return ReadLines("the end"); });
  {
    base::LogWriter writer;
    LogLines(1000);
    LOG(INFO) << "the end";
  }
  Restore();
  EXPECT_EQ(reading.get().size(), 1001);
}

TEST_F(FullLogPipeStopsThreadsTest, AFatalLineGetsOut) {
  Restore();
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // A forked child has no writer thread.
  EXPECT_DEATH(
      {
        base::LogWriter writer;
        LOG(ERROR) << "before";
        CHECK(false) << "the reason";
      },
      "before\n.*the reason");
}

}  // namespace
}  // namespace bastion
