#include "orchestrator/remote/peer_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/guarded.h"
#include "common/base/status.h"

namespace bastion {

PeerWatch::PeerWatch(std::string peer, absl::Duration timeout, Ask ask, absl::Duration unknown_call)
    : peer_(std::move(peer)),
      timeout_(timeout),
      ask_(std::move(ask)),
      unknown_call_(unknown_call),
      expected_(absl::ToInt64Nanoseconds(unknown_call)) {}

PeerWatch::~PeerWatch() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

absl::Status PeerWatch::AwaitAnswer() {
  const auto answered = [this] {
    mutex_.AssertHeld();
    return answered_ == renewals_;
  };
  {
    MutexLock lock(&mutex_);
    if (!std::exchange(started_, true)) thread_ = std::thread([this] { Main(); });
    mutex_.AwaitWithTimeout(answered, timeout_);
  }
  return status();
}

absl::Status PeerWatch::status() const {
  MutexLock lock(&mutex_);
  if (!started_) return absl::OkStatus();
  if (answered_ == renewals_) return verdict_;
  return absl::UnavailableError(absl::StrCat(peer_, " has not answered yet"));
}

void PeerWatch::Renew() {
  MutexLock lock(&mutex_);
  Forget();
}

bool PeerWatch::RenewIfLost() {
  MutexLock lock(&mutex_);
  const bool lost = answered_ == renewals_ && !verdict_.ok();
  if (lost) Forget();
  return lost;
}

void PeerWatch::Forget() {
  ++renewals_;
  instance_.reset();
  stall_ = {};
  unserved_answers_ = 0;
  call_lost_ = false;
  expected_.store(absl::ToInt64Nanoseconds(unknown_call_));
}

void PeerWatch::Main() {
  for (;;) {
    uint64_t renewals = 0;
    {
      MutexLock lock(&mutex_);
      if (stopping_) return;
      renewals = renewals_;
    }
    absl::StatusOr<EngineActivity> answer = absl::InternalError("the question threw an exception");
    RunGuarded("asking a peer", [&] { answer = ask_(timeout_); });
    const auto urgent = [&] {
      mutex_.AssertHeld();
      return stopping_ || renewals_ != renewals;
    };
    MutexLock lock(&mutex_);
    if (renewals_ == renewals) Judge(answer, renewals);
    mutex_.AwaitWithTimeout(urgent, timeout_ / kQuestionsPerTimeout);
  }
}

void PeerWatch::Judge(const absl::StatusOr<EngineActivity>& answer, uint64_t renewals) {
  const absl::Status& error = answer.status();
  const bool silent = absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error);
  if (answer.ok()) {
    verdict_ = CheckEngine(*answer);
  } else if (silent) {
    verdict_ = absl::UnavailableError(absl::StrCat(peer_, " does not answer: ", error.message()));
  } else if (answered_ != renewals) {
    verdict_ = error;
  }  // Else it answered before, and is only too busy to answer now.
  answered_ = renewals;
}

absl::Status PeerWatch::CheckEngine(const EngineActivity& activity) {
  const absl::Duration stalled = stall_.Look(activity, Clock::Real().Now());
  if (!instance_.has_value()) instance_ = activity.instance;
  if (activity.instance != instance_) {
    return absl::UnavailableError(absl::StrCat(peer_, " was restarted"));
  }
  RETURN_IF_ERROR(CheckCall(activity));
  const absl::Duration patience = std::max(timeout_, kSlack * absl::Nanoseconds(expected_.load()));
  if (stalled <= patience) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(peer_, " hangs: its engine is in a call and made no ",
                                             "progress for ", absl::FormatDuration(patience)));
}

absl::Status PeerWatch::CheckCall(const EngineActivity& activity) {
  const absl::Duration now = Clock::Real().Now();
  const uint64_t call = call_.load(std::memory_order_acquire);
  // Without an instance, the peer is of a version that does not report its activity.
  const bool waits = call % 2 == 1 && activity.instance != 0;
  if (!waits || activity.busy || call != unserved_call_) unserved_answers_ = 0;
  if (waits && !activity.busy && unserved_answers_++ == 0) {
    unserved_call_ = call;
    unserved_since_ = now;
  }
  const absl::Duration patience =
      timeout_ + absl::Seconds(static_cast<double>(call_bytes_.load()) / kSlowestNetwork);
  // Not by the time alone: while this process was stopped, it could not read the reply either.
  call_lost_ =
      call_lost_ || (unserved_answers_ > kQuestionsPerTimeout && now - unserved_since_ > patience);
  if (!call_lost_) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(peer_, " does not answer a call: its engine has been idle for ",
                   absl::FormatDuration(patience), " since the call was sent"));
}

}  // namespace bastion
