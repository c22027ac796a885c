#include "orchestrator/cycle/mask_worker.h"

#include <exception>
#include <system_error>

#include "common/base/thread_time.h"

namespace bastion {

void MaskWorker::Job::Run() {
  try {
    found_ = find_();
  } catch (const std::exception& error) {
    return Fail(absl::InternalError(error.what()));
  }
  find_ = nullptr;
  done_ = true;
}

void MaskWorker::Job::Fail(absl::Status error) {
  find_ = nullptr;
  found_ = {};
  found_.allowed = std::move(error);
  done_ = true;
}

MaskWorker::~MaskWorker() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(&mutex_);
    stops_ = true;
    threads = std::move(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

std::shared_ptr<MaskWorker::Job> MaskWorker::Start(std::function<FoundMask()> find) {
  auto job = std::make_shared<Job>(std::move(find));
  MutexLock lock(&mutex_);
  waiting_.push_back(job);
  try {
    while (static_cast<int>(threads_.size()) < thread_count_) {
      threads_.emplace_back([this] { Main(); });
    }
  } catch (const std::system_error& error) {
    // The system has no more threads. The next job tries again.
    if (threads_.empty()) job->Fail(absl::UnavailableError(error.what()));
  }
  return job;
}

void MaskWorker::Main() {
  LowerThreadPriority();
  for (;;) {
    std::shared_ptr<Job> job;
    {
      MutexLock lock(&mutex_);
      const auto has_work = [this] {
        mutex_.AssertHeld();
        return stops_ || !waiting_.empty();
      };
      while (!mutex_.AwaitWithTimeout(has_work, absl::InfiniteDuration())) {
      }
      if (stops_) return;
      job = waiting_.front().lock();
      waiting_.pop_front();
    }
    if (job != nullptr && !job->done()) job->Run();
  }
}

}  // namespace bastion
