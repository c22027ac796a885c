#include "orchestrator/schedule/admission.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "common/stages/kv_pages.h"
#include "orchestrator/schedule/error_details.h"
#include "orchestrator/schedule/kv_admission.h"

namespace bastion {
namespace {

using Request = RunningRequests::Request;

// Further requests wait for the next cycle once admissions have taken this long: the prior of a
// long prompt takes milliseconds, and running requests wait meanwhile.
constexpr absl::Duration kAdmissionTime = absl::Milliseconds(4);

// A request fails if the verifier refuses it in this many successive forwards although pages are
// free.
constexpr int kMaxRefusals = 8;

}  // namespace

absl::Status Admission::Admit(Open open) {
  VerifierLink::Session& session = *link_.session();
  KvAdmission memory(session.target, running_.free_tokens());
  for (const Request& request : running_.all()) memory.Reserve(*request);
  // Half of the rows stay for prompts and nodes.
  const int slots = std::clamp(session.target.max_rows / 2, 1, options_.max_running);
  const bool others_wait = !running_.empty();
  StopWatch watch;
  absl::Duration spent;
  while (static_cast<int>(running_.size()) < slots && !(others_wait && spent > kAdmissionTime)) {
    bool waits_for_memory = false;
    Request next = queue_.PopIf([&](const LiveRequest& candidate) {
      waits_for_memory = !running_.empty() && !memory.Fits(candidate);
      return !waits_for_memory;
    });
    if (waits_for_memory) {
      full_at_ = Clock::Real().Now();
      LogPressure();
    }
    if (next == nullptr) return absl::OkStatus();
    LiveRequest& request = running_.Add(std::move(next));
    if (!request.admitted()) {
      if (request.arrived() < full_at_) request.MarkWaitedForRoom();
      request.CreateSequence({NewSession(), 0}, admissions_++, &session.costs, &session.memory);
    }
    // For all pages, because those that it reuses may have counted as free.
    memory.Reserve(request);
    RETURN_IF_ERROR(open(request));
    (void)request.TakeCommitted();  // Reused tokens take no time, so they are not charged.
    spent += watch.Lap();
  }
  if (static_cast<int>(running_.size()) >= slots) full_at_ = Clock::Real().Now();
  return absl::OkStatus();
}

void Admission::LogPressure() {
  const auto loops = pressure_log_.Count(Clock::Real().Now());
  if (!loops) return;
  LOG(INFO) << "admission waits for free pages of the KV cache (in " << *loops
            << " loops since the last such line): " << queue_.counts().waiting << " requests wait, "
            << running_.size() << " run, " << running_.free_tokens() << " tokens are free";
}

int64_t Admission::TokensAfterNextRows(const LiveRequest& request) const {
  return request.sequence().committed() +
         std::clamp(request.prompt_left(), 1, options_.prefill_rows);
}

size_t Admission::Victim() const {
  const auto rank = [](const Request& request) {
    // The lowest weight first, then the latest admission.
    return std::make_tuple(-request->weight(), request->admission());
  };
  const std::vector<Request>& all = running_.all();
  const auto last =
      std::max_element(all.begin(), all.end(),
                       [&](const Request& a, const Request& b) { return rank(a) < rank(b); });
  return static_cast<size_t>(last - all.begin());
}

int64_t Admission::MissingPages() const {
  const TargetInfo& target = link_.session()->target;
  int64_t missing = -(running_.free_tokens() / target.page_tokens);
  for (const Request& request : running_.all()) {
    if (!request->sequence().starved()) continue;
    missing += KvPages(target, TokensAfterNextRows(*request)) -
               KvPages(target, request->sequence().committed());
  }
  return missing;
}

bool Admission::Preempt(size_t forward_size) {
  const auto starved = [](const Request& request) { return request->sequence().starved(); };
  if (std::none_of(running_.all().begin(), running_.all().end(), starved)) {
    starved_poll_ = kShortestStarvedPoll;
    return false;
  }
  if (running_.size() == 1) {
    if (forward_size == 1) HandleStarvedAlone(*running_.all().front());
    return false;
  }
  const int64_t before = preemptions_;
  while (running_.size() > 1 && MissingPages() > 0) PreemptVictim();
  return preemptions_ > before;
}

void Admission::PreemptVictim() {
  Request victim = running_.Suspend(Victim());
  ++preemptions_;
  TellObserver(observer_, [&](ServingObserver& observer) { observer.OnPreemption(*victim); });
  if (const auto count = preemption_log_.Count(Clock::Real().Now())) {
    LOG(WARNING) << "the KV cache is full: " << *count
                 << " requests were preempted since the last such line, now "
                 << victim->request().request_id << " with " << victim->prompt_left()
                 << " tokens to prefill again; raise --kv_tokens of the verifier or lower "
                 << "--max_running";
  }
  running_.Requeue(std::move(victim));
}

void Admission::HandleStarvedAlone(LiveRequest& request) {
  const int capacity = KvCapacity(link_.session()->target);
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

void Admission::FailRefused(const ServedCycle& served) {
  const bool pages_suffice = MissingPages() <= 0;
  const auto count = [&](LiveRequest& request) {
    DecodeSequence& sequence = request.sequence();
    request.refused_forwards =
        pages_suffice && sequence.starved() ? request.refused_forwards + 1 : 0;
    if (request.refused_forwards < kMaxRefusals) return;
    sequence.Fail(absl::InternalError(
        absl::StrCat("the verifier refused the request in ", request.refused_forwards,
                     " successive forwards although ", running_.free_tokens(),
                     " tokens of the KV cache are free: ", sequence.starvation().message())));
  };
  for (LiveRequest* request : served.decoding) count(*request);
  // Beside trees, a prompt can lack pages that are free again after the forward.
  if (!served.decoding.empty()) return;
  for (const ServedChunk& chunk : served.chunks) count(*chunk.request);
}

}  // namespace bastion
