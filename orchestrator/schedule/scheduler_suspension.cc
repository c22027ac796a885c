// How the scheduler takes requests out of the running ones: for lack of memory, for a client that
// does not read, or with a lost verifier.
#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/stages/kv_pages.h"
#include "orchestrator/schedule/error_details.h"
#include "orchestrator/schedule/kv_admission.h"
#include "orchestrator/schedule/scheduler.h"

namespace bastion {
namespace {

// A request runs alone once the verifier was lost in this many of its calls without output in
// between. If it ends the verifier, it takes no other request with it.
constexpr int kSuspectLosses = 2;
// A request fails if the verifier is lost more often than this during its calls, without output in
// between. The request has run alone during the last two losses, so it is the one that ends the
// verifier.
constexpr int kMaxLosses = 3;

// A request fails if the verifier refuses it in this many successive turns although pages are free.
constexpr int kMaxRefusedTurns = 8;

}  // namespace

void Scheduler::LoseVerifier(const absl::Status& reason) {
  LOG(ERROR) << "the verifier is lost; " << running_.size()
             << " running requests wait for it up to " << options_.verifier_patience << ": "
             << reason;
  if (!lost_at_.has_value()) lost_at_ = Clock::Real().Now();
  link_.Lose(ForClient(absl::UnavailableError("the model is not available; try again later")));
  SuspendAll();
}

void Scheduler::SuspendAll() {
  while (!running_.empty()) {
    Request request = Suspend(running_.size() - 1);
    request->EndStall();
    if (std::exchange(request->in_last_call, false)) request->CountLoss();
    if (request->admitted() && request->losses() <= kMaxLosses) {
      queue_.ReturnPreempted(std::move(request));
      continue;
    }
    request->Fail(
        ForClient(absl::UnavailableError("the model failed repeatedly during this request")));
    queue_.RecordEnd(*request);
  }
}

void Scheduler::SetLastCall(const ServedCycle& call) {
  for (const Request& request : running_) request->in_last_call = false;
  for (LiveRequest* request : call.decoding) request->in_last_call = true;
  for (const ServedChunk& chunk : call.chunks) chunk.request->in_last_call = true;
}

const LiveRequest* Scheduler::Suspect() const {
  const LiveRequest* suspect = nullptr;
  for (const Request& request : running_) {
    if (request->losses() < kSuspectLosses || !CanRun(*request)) continue;
    if (suspect == nullptr || request->losses() < suspect->losses()) suspect = request.get();
  }
  return suspect;
}

void Scheduler::CheckPatience() {
  if (!lost_at_.has_value()) return;
  if (Clock::Real().Now() - *lost_at_ < options_.verifier_patience) return;
  lost_at_.reset();
  FailAll(ForClient(absl::UnavailableError("the model is not available; try again later")));
}

void Scheduler::ReturnParked() {
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

void Scheduler::Park() {
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

int64_t Scheduler::TokensAfterNextRows(const LiveRequest& request) const {
  return request.sequence().committed() +
         std::clamp(request.prompt_left(), 1, options_.prefill_rows);
}

size_t Scheduler::Victim() const {
  const auto rank = [](const Request& request) {
    // The lowest weight first, then the latest admission.
    return std::make_tuple(-request->weight(), request->admission());
  };
  const auto last =
      std::max_element(running_.begin(), running_.end(),
                       [&](const Request& a, const Request& b) { return rank(a) < rank(b); });
  return static_cast<size_t>(last - running_.begin());
}

int64_t Scheduler::MissingPages() const {
  const TargetInfo& target = link_.engine()->target;
  int64_t missing = -(free_tokens_ / target.page_tokens);
  for (const Request& request : running_) {
    if (!request->sequence().starved()) continue;
    missing += KvPages(target, TokensAfterNextRows(*request)) -
               KvPages(target, request->sequence().committed());
  }
  return missing;
}

void Scheduler::Preempt() {
  const auto starved = [](const Request& request) { return request->sequence().starved(); };
  if (std::none_of(running_.begin(), running_.end(), starved)) {
    starved_poll_ = kStalledPoll;
    return;
  }
  if (running_.size() == 1) {
    if (turn_size_ == 1) HandleStarvedAlone(*running_[0]);
    return;
  }
  if (MissingPages() <= 0) return;
  prompts_alone_ = false;
  while (running_.size() > 1 && MissingPages() > 0) {
    Request victim = Suspend(Victim());
    victim->EndStall();
    ++preemptions_;
    TellObserver(observer_, [&](ServingObserver& observer) { observer.OnPreemption(*victim); });
    if (const auto count = preemption_log_.Count(Clock::Real().Now())) {
      LOG(WARNING) << "the KV cache is full: " << *count
                   << " requests were preempted since the last such line, now "
                   << victim->request().request_id << " with " << victim->prompt_left()
                   << " tokens to prefill again; raise --kv_tokens of the verifier or lower "
                   << "--max_running";
    }
    queue_.ReturnPreempted(std::move(victim));
  }
}

void Scheduler::HandleStarvedAlone(LiveRequest& request) {
  const int capacity = KvCapacity(link_.engine()->target);
  if (TokensAfterNextRows(request) <= capacity) {
    // The pages belong to another orchestrator.
    queue_.Sleep(starved_poll_);
    starved_poll_ = std::min(2 * starved_poll_, kLongestStarvedPoll);
    return;
  }
  request.sequence().Fail(ForClient(absl::ResourceExhaustedError(absl::StrCat(
      "the KV cache of this server holds ", capacity, " tokens, and this request alone fills it: ",
      request.request().decode.prompt.size(), " tokens of the prompt and ",
      request.sequence().output().size(), " of the output; set a lower stop.max_tokens"))));
}

void Scheduler::FailRefused(const ServedCycle& turn) {
  const bool pages_suffice = MissingPages() <= 0;
  const auto count = [&](LiveRequest& request) {
    DecodeSequence& sequence = request.sequence();
    request.refused_turns = pages_suffice && sequence.starved() ? request.refused_turns + 1 : 0;
    if (request.refused_turns < kMaxRefusedTurns) return;
    sequence.Fail(absl::InternalError(
        absl::StrCat("the verifier refused the request in ", request.refused_turns,
                     " successive forwards although ", free_tokens_,
                     " tokens of the KV cache are free: ", sequence.starvation().message())));
  };
  for (LiveRequest* request : turn.decoding) count(*request);
  // Beside trees, a prompt can lack pages that are free again after the forward.
  if (!turn.decoding.empty()) return;
  for (const ServedChunk& chunk : turn.chunks) count(*chunk.request);
}

void Scheduler::ReleasePages(const LiveRequest& request) {
  VerifierLink::Engine& engine = *link_.engine();
  engine.cycle.Close(request.sequence(), *drafter_);
  free_tokens_ +=
      KvPages(engine.target, request.sequence().committed()) * engine.target.page_tokens;
  // Shared pages count once for each of their sequences.
  free_tokens_ = std::min<int64_t>(free_tokens_, KvCapacity(engine.target));
}

Scheduler::Request Scheduler::Suspend(size_t index) {
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

void Scheduler::FailAll(const absl::Status& status) {
  queue_.Refuse(status);
  while (!running_.empty()) {
    const Request request = Suspend(running_.size() - 1);
    request->Fail(status);
    queue_.RecordEnd(*request);
  }
  for (const Request& request : std::exchange(parked_, {})) {
    request->Fail(status);
    queue_.RecordParkedEnd(*request);
  }
}

}  // namespace bastion
