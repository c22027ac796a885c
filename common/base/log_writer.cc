#include "common/base/log_writer.h"

#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <deque>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "common/base/check.h"
#include "common/base/mutex.h"

namespace bastion::base {
namespace {

constexpr size_t kQueueBytes = size_t{1} << 20;

// A failed write is ignored: the service must survive a closed console.
void WriteToStderr(const std::string& line) {
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t count = ::write(STDERR_FILENO, line.data() + written, line.size() - written);
    if (count >= 0) {
      written += static_cast<size_t>(count);
    } else if (errno == EAGAIN) {  // Another process made the pipe non-blocking.
      pollfd pipe = {STDERR_FILENO, POLLOUT, 0};
      poll(&pipe, 1, /*timeout=*/-1);
    } else if (errno != EINTR) {
      return;
    }
  }
}

// Never destroyed: threads may log until the process is gone, and the writer's may hang in a write.
class Queue {
 public:
  static Queue& Get() {
    static Queue& queue = *new Queue;
    return queue;
  }

  void Start() {
    MutexLock lock(&mutex_);
    mode_ = Mode::kQueue;
    if (std::exchange(has_thread_, true)) return;
    // The thread takes no signals: those are for the threads that expect them.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    std::thread([this] { Main(); }).detach();
    pthread_sigmask(SIG_SETMASK, &old, nullptr);
  }

  void Stop() {
    // Under one lock, so that no line is queued after the last look at the queue.
    MutexLock lock(&mutex_);
    mode_ = AwaitWritten() ? Mode::kDirect : Mode::kDrop;
  }

  void Write(std::string line) {
    {
      MutexLock lock(&mutex_);
      if (mode_ == Mode::kDrop) return;
      if (mode_ == Mode::kQueue) return Push(std::move(line));
    }
    WriteToStderr(line);
  }

  void Flush() {
    MutexLock lock(&mutex_);
    (void)AwaitWritten();
  }

 private:
  enum class Mode { kDirect, kQueue, kDrop };

  // True if all lines are written.
  bool AwaitWritten() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto written = [this] {
      mutex_.AssertHeld();
      return lines_.empty() && !writing_;
    };
    return mutex_.AwaitWithTimeout(written, kLogFlushLimit);
  }
  void Push(std::string line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (bytes_ + line.size() > kQueueBytes) {
      ++dropped_;
      return;
    }
    bytes_ += line.size();
    lines_.push_back(std::move(line));
  }

  [[noreturn]] void Main() {
    const auto has_lines = [this] {
      mutex_.AssertHeld();
      return !lines_.empty();
    };
    for (;;) {
      std::deque<std::string> lines;
      int64_t dropped = 0;
      {
        MutexLock lock(&mutex_);
        writing_ = false;
        mutex_.AwaitWithTimeout(has_lines, absl::InfiniteDuration());
        lines.swap(lines_);
        bytes_ = 0;
        dropped = std::exchange(dropped_, 0);
        writing_ = true;
      }
      if (dropped > 0) LOG(WARNING) << "log lines dropped: " << dropped << "; the log was full";
      for (const std::string& line : lines) WriteToStderr(line);
    }
  }

  Mutex mutex_;
  Mode mode_ ABSL_GUARDED_BY(mutex_) = Mode::kDirect;
  bool has_thread_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::string> lines_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // The size of lines_.
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

LogWriter::LogWriter() { Queue::Get().Start(); }

LogWriter::~LogWriter() { Queue::Get().Stop(); }

void WriteLog(std::string line) { Queue::Get().Write(std::move(line)); }

void FlushLog() { Queue::Get().Flush(); }

}  // namespace bastion::base
