#include "orchestrator/schedule/running_requests.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/stages/kv_pages.h"
#include "orchestrator/schedule/error_details.h"
#include "orchestrator/schedule/kv_admission.h"

namespace bastion {

void RunningRequests::ReleasePages(const LiveRequest& request) {
  VerifierLink::Session& session = *link_.session();
  session.cycle.Close(request.sequence(), drafter_);
  free_tokens_ +=
      KvPages(session.target, request.sequence().committed()) * session.target.page_tokens;
  // Shared pages count once for each of their sequences.
  free_tokens_ = std::min<int64_t>(free_tokens_, KvCapacity(session.target));
}

RunningRequests::Request RunningRequests::Suspend(size_t index) {
  LiveRequest& running = *running_[index];
  // Without a sequence, the admission threw.
  if (running.admitted()) {
    ReleasePages(running);
    running.sequence().Preempt();
  }
  Request request = std::move(running_[index]);
  running_.erase(running_.begin() + static_cast<ptrdiff_t>(index));
  return request;
}

void RunningRequests::Requeue(Request request) {
  request->EndStall();
  queue_.ReturnPreempted(std::move(request));
}

void RunningRequests::Fail(const Request& request, const absl::Status& error) {
  request->Fail(error);
  queue_.RecordEnd(*request);
}

absl::Status RunningRequests::CheckClient(const LiveRequest& request) const {
  if (absl::Status status = request.CheckClient(); !status.ok()) return status;
  const absl::Duration limit = options_.slow_client;
  if (request.total_stall() <= limit) return absl::OkStatus();
  return ForClient(absl::ResourceExhaustedError(absl::StrCat(
      "the client has not read its answer for ", absl::FormatDuration(limit), " in total")));
}

void RunningRequests::Retire() {
  const auto is_over = [this](const Request& request) {
    absl::Status status = CheckClient(*request);
    if (status.ok()) status = request->sequence().status();
    if (status.ok()) status = request->CheckPublished();
    if (status.ok() && !request->sequence().done()) return false;
    if (!status.ok()) request->Fail(status);
    ReleasePages(*request);
    queue_.RecordEnd(*request);
    return true;
  };
  std::erase_if(running_, is_over);
}

void RunningRequests::Park() {
  for (size_t i = running_.size(); i-- > 0;) {
    if (!running_[i]->stalled() || running_[i]->stall() < options_.park_after) continue;
    Request request = Suspend(i);
    queue_.RecordParked(*request);
    if (const auto count = parking_log_.Count(Clock::Real().Now())) {
      LOG(INFO) << *count << " requests were parked since the last such line, because their "
                << "clients do not read";
    }
    if (static_cast<int>(parked_.size()) < options_.max_waiting) {
      parked_.push_back(std::move(request));
      continue;
    }
    request->Fail(ForClient(absl::ResourceExhaustedError(absl::StrCat(
        "the client reads too slowly, and ", parked_.size(), " other answers wait for clients"))));
    queue_.RecordParkedEnd(*request);
  }
}

void RunningRequests::ReturnParked() {
  std::vector<Request> parked = std::exchange(parked_, {});
  for (Request& request : parked) {
    request->UpdateStall();
    if (const absl::Status status = CheckClient(*request); !status.ok()) {
      request->Fail(status);
      queue_.RecordParkedEnd(*request);
    } else if (request->stalled()) {
      parked_.push_back(std::move(request));
    } else {
      queue_.ReturnParked(std::move(request));
    }
  }
}

void RunningRequests::QueueOtherAnswers() {
  for (const Request& request : running_) {
    const DecodeSequence& sequence = request->sequence();
    // With output, the prompt was prefilled before an exception interrupted a loop.
    const bool was_prefilled = request->prompt_left() == 0 || !sequence.output().empty();
    if (!was_prefilled || !sequence.status().ok()) continue;
    if (auto answers = request->TakeOtherAnswers(); !answers.empty()) {
      queue_.PushAnswers(std::move(answers));
    }
  }
}

void RunningRequests::FailAll(const absl::Status& error) {
  queue_.Refuse(error);
  while (!running_.empty()) Fail(Suspend(running_.size() - 1), error);
  for (const Request& request : std::exchange(parked_, {})) {
    request->Fail(error);
    queue_.RecordParkedEnd(*request);
  }
}

}  // namespace bastion
