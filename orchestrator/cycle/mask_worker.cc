#include "orchestrator/cycle/mask_worker.h"

#include <exception>

#include "common/base/thread_time.h"

namespace bastion {

void MaskWorker::Job::Run() {
  try {
    found_ = find_();
  } catch (const std::exception& error) {
    found_ = {};
    found_.allowed = absl::InternalError(error.what());
  }
  find_ = nullptr;
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
  while (static_cast<int>(threads_.size()) < thread_count_) {
    threads_.emplace_back([this] { Main(); });
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
    if (job != nullptr) job->Run();
  }
}

}  // namespace bastion
