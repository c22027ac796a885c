#include "orchestrator/schedule/request_queue.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "orchestrator/schedule/error_details.h"

namespace bastion {
namespace {

void FailAll(const std::vector<RequestQueue::Request>& requests, const absl::Status& status) {
  for (const RequestQueue::Request& request : requests) request->Fail(status);
}

void FailCanceled(const std::vector<RequestQueue::Request>& requests) {
  FailAll(requests, LiveRequest::CanceledError());
}

void FailExpired(const std::vector<RequestQueue::Request>& requests) {
  FailAll(requests, LiveRequest::DeadlineError());
}

}  // namespace

RequestQueue::RequestQueue(int capacity, const Clock* clock)
    : capacity_(capacity),
      clock_(clock),
      refusal_(ForClient(
          absl::UnavailableError("the service is not ready to generate text; try again later"))) {}

absl::Status RequestQueue::Refusal(int others, std::vector<Request>& expired) {
  if (draining_) {
    return ForClient(absl::UnavailableError("the service is shutting down; try another replica"));
  }
  if (!refusal_.ok()) return refusal_;
  expired = RemoveExpired();
  return order_.prompts() + others >= capacity_ ? FullError() : absl::OkStatus();
}

absl::Status RequestQueue::CheckSize(int prompts) const {
  if (prompts <= capacity_) return absl::OkStatus();
  return FieldError("prompt", absl::StrCat("the call has ", prompts,
                                           " prompts, but the queue of this server holds ",
                                           capacity_, " (--max_waiting)"));
}

absl::Status RequestQueue::CheckRoom(int others) {
  std::vector<Request> expired;
  const auto check = [&] {
    MutexLock lock(&mutex_);
    return Refusal(others, expired);
  };
  const absl::Status status = check();
  FailExpired(expired);
  return status;
}

absl::Status RequestQueue::Push(Request request) {
  std::vector<Request> requests;
  requests.push_back(std::move(request));
  return PushAll(std::move(requests));
}

absl::Status RequestQueue::PushAll(std::vector<Request> requests) {
  std::vector<Request> expired;
  const auto push = [&]() -> absl::Status {
    MutexLock lock(&mutex_);
    const int others = static_cast<int>(requests.size()) - 1;
    if (absl::Status refusal = Refusal(others, expired); !refusal.ok()) return refusal;
    for (Request& request : requests) {
      next_deadline_ = std::min(next_deadline_, request->deadline());
      order_.Add(std::move(request));
    }
    return absl::OkStatus();
  };
  const absl::Status status = push();
  FailExpired(expired);
  return status;
}

absl::Status RequestQueue::FullError() {
  const absl::Duration now = clock_->Now();
  if (const auto refused = refusal_log_.Count(now)) {
    LOG(WARNING) << "the queue is full: " << *refused
                 << " requests were refused since the last such line";
  }
  const absl::Status full = absl::ResourceExhaustedError(absl::StrCat(
      "the queue is full: ", order_.prompts(), " prompts are waiting; try again later"));
  return WithRetryDelay(ForClient(full), retry_.NextDelay(now));
}

void RequestQueue::Cancel(RequestStream& stream) {
  stream.Cancel();
  std::vector<Request> canceled;
  {
    MutexLock lock(&mutex_);
    canceled = order_.Remove(
        [&](const LiveRequest& request) { return request.stream().get() == &stream; });
  }
  FailCanceled(canceled);
}

void RequestQueue::Drain(absl::Duration grace) {
  const auto idle = [this] {
    mutex_.AssertHeld();
    const Counts counts = CountRequests();
    return counts.waiting + counts.running + counts.parked == 0;
  };
  MutexLock lock(&mutex_);
  draining_ = true;
  mutex_.AwaitWithTimeout(idle, grace);
}

void RequestQueue::Interrupt() {
  MutexLock lock(&mutex_);
  interrupted_ = true;
}

void RequestQueue::Accept() {
  MutexLock lock(&mutex_);
  refusal_ = absl::OkStatus();
}

void RequestQueue::Pause(const absl::Status& reason) {
  MutexLock lock(&mutex_);
  refusal_ = reason;
}

void RequestQueue::Refuse(const absl::Status& reason) {
  std::vector<Request> waiting;
  {
    MutexLock lock(&mutex_);
    refusal_ = reason;
    waiting = order_.Remove([](const LiveRequest&) { return true; });
  }
  FailAll(waiting, reason);
}

bool RequestQueue::AwaitRequest(absl::Duration timeout) {
  const auto done = [this] {
    mutex_.AssertHeld();
    return interrupted_ || order_.size() > 0;
  };
  std::vector<Request> expired;
  bool interrupted = false;
  {
    MutexLock lock(&mutex_);
    mutex_.AwaitWithTimeout(done, timeout);
    expired = RemoveExpired();
    interrupted = interrupted_;
  }
  FailExpired(expired);
  return !interrupted;
}

void RequestQueue::Sleep(absl::Duration timeout) {
  const auto interrupted = [this] {
    mutex_.AssertHeld();
    return interrupted_;
  };
  MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(interrupted, timeout);
}

RequestQueue::Request RequestQueue::PopIf(absl::FunctionRef<bool(const LiveRequest&)> fits) {
  std::vector<Request> expired, ended;
  Request next;
  {
    MutexLock lock(&mutex_);
    expired = RemoveExpired();
    ended = RemoveEndedCalls();
    const LiveRequest* const candidate = order_.Next();
    if (candidate != nullptr && fits(*candidate)) {
      running_[candidate] = candidate->stream();
      next = order_.Take();
      retry_.RecordStart(clock_->Now());
    }
  }
  FailExpired(expired);
  FailCanceled(ended);
  return next;
}

void RequestQueue::PushAnswers(std::vector<Request> answers) {
  std::vector<Request> canceled;
  {
    MutexLock lock(&mutex_);
    for (auto answer = answers.rbegin(); answer != answers.rend(); ++answer) {
      // A Cancel before this did not find them here.
      if ((*answer)->stream()->canceled()) {
        canceled.push_back(std::move(*answer));
        continue;
      }
      next_deadline_ = std::min(next_deadline_, (*answer)->deadline());
      order_.AddFirst(std::move(*answer));
    }
  }
  FailCanceled(canceled);
}

void RequestQueue::ReturnPreempted(Request request) {
  Request canceled;
  {
    MutexLock lock(&mutex_);
    ReleaseSlot(*request);
    retry_.RecordPreemption();
    canceled = Return(std::move(request), &FairOrder::AddPreempted);
  }
  if (canceled != nullptr) canceled->Fail(LiveRequest::CanceledError());
}

void RequestQueue::RecordParked(const LiveRequest& request) {
  MutexLock lock(&mutex_);
  ReleaseSlot(request);
  parked_[&request] = request.stream();
  retry_.RecordEnd(clock_->Now());
}

void RequestQueue::ReturnParked(Request request) {
  Request canceled;
  {
    MutexLock lock(&mutex_);
    parked_.erase(request.get());
    canceled = Return(std::move(request), &FairOrder::AddReturned);
  }
  if (canceled != nullptr) canceled->Fail(LiveRequest::CanceledError());
}

RequestQueue::Request RequestQueue::Return(Request request, void (FairOrder::*add)(Request)) {
  // A Cancel before this did not find the request here.
  if (request->stream()->canceled()) {
    order_.Leave(*request);
    return request;
  }
  next_deadline_ = std::min(next_deadline_, request->deadline());
  (order_.*add)(std::move(request));
  return nullptr;
}

void RequestQueue::ReleaseSlot(const LiveRequest& request) {
  order_.ReleaseSlot(request);
  running_.erase(&request);
}

void RequestQueue::Charge(const LiveRequest& request, int tokens) {
  MutexLock lock(&mutex_);
  order_.Charge(request, tokens);
}

void RequestQueue::RecordEnd(const LiveRequest& request) {
  MutexLock lock(&mutex_);
  ReleaseSlot(request);
  order_.Leave(request);
  retry_.RecordEnd(clock_->Now());
}

void RequestQueue::RecordParkedEnd(const LiveRequest& request) {
  MutexLock lock(&mutex_);
  parked_.erase(&request);
  order_.Leave(request);
}

std::vector<RequestQueue::Request> RequestQueue::RemoveEndedCalls() {
  std::vector<Request> removed;
  const LiveRequest* next = nullptr;
  while ((next = order_.Next()) != nullptr && next->stream()->canceled()) {
    const RequestStream* const stream = next->stream().get();
    std::vector<Request> ended =
        order_.Remove([&](const LiveRequest& request) { return request.stream().get() == stream; });
    removed.insert(removed.end(), std::make_move_iterator(ended.begin()),
                   std::make_move_iterator(ended.end()));
  }
  return removed;
}

std::vector<RequestQueue::Request> RequestQueue::RemoveExpired() {
  const absl::Duration now = clock_->Now();
  if (now < next_deadline_) return {};
  next_deadline_ = absl::InfiniteDuration();
  return order_.Remove([&](const LiveRequest& request) {
    mutex_.AssertHeld();
    const bool expired = request.deadline() <= now;
    if (!expired) next_deadline_ = std::min(next_deadline_, request.deadline());
    return expired;
  });
}

RequestQueue::Counts RequestQueue::counts() const {
  MutexLock lock(&mutex_);
  return CountRequests();
}

RequestQueue::Counts RequestQueue::CountRequests() const {
  const auto count = [](const Popped& popped) {
    return static_cast<int>(std::count_if(
        popped.begin(), popped.end(), [](const auto& entry) { return !entry.second->canceled(); }));
  };
  return {order_.size(), count(running_), count(parked_)};
}

}  // namespace bastion
