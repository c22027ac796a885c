#include "orchestrator/schedule/serving_loop.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/cores.h"
#include "common/base/thread_time.h"
#include "orchestrator/cycle/batch_planner.h"
#include "orchestrator/schedule/error_details.h"
#include "orchestrator/schedule/kv_admission.h"

namespace bastion {
namespace {

using Request = RunningRequests::Request;

// How long the idle thread waits before it looks at the connection and the learned prior again.
constexpr absl::Duration kIdleWait = absl::Milliseconds(50);
// How often the thread looks for clients that have read while nothing else is to do.
constexpr absl::Duration kParkedPoll = absl::Milliseconds(10);
// How long a loop waits if no running request can continue.
constexpr absl::Duration kStalledPoll = absl::Milliseconds(1);
// How long a call of ReadCosts waits. The thread answers such calls once per loop, also while idle.
constexpr absl::Duration kInquiryTimeout = absl::Seconds(5);

// The CPU time that the masks of all requests may take before a forward. Further ones are left to
// the mask worker.
constexpr absl::Duration kMaskTime = absl::Milliseconds(20);

int MaskThreads() { return std::max(1, static_cast<int>(UsableCores().size()) / 2); }

}  // namespace

ServingLoop::ServingLoop(const SchedulerOptions& options, Verifier* verifier, Drafter* drafter,
                         std::function<void(bool)> on_ready, ServingObserver* observer)
    : options_(options),
      on_ready_(std::move(on_ready)),
      observer_(observer),
      queue_(options.max_waiting),
      mask_worker_(MaskThreads()),
      link_(options.link, verifier, drafter,
            {.on_connect =
                 [this] {
                   cycle_thread_.AssertHeld();
                   OnLinkChange(absl::OkStatus());
                 },
             .on_loss =
                 [this](const absl::Status& reason) {
                   cycle_thread_.AssertHeld();
                   OnLinkChange(reason);
                 },
             .on_replace =
                 [this] {
                   cycle_thread_.AssertHeld();
                   running_.FailAll(ForClient(
                       absl::UnavailableError("the model was replaced; try again later")));
                 }}),
      running_(options, &queue_, &link_, drafter),
      admission_(options, &queue_, &link_, &running_, observer),
      loss_(options.verifier_patience, &link_, &running_) {}

SchedulerStats ServingLoop::stats() const {
  const RequestQueue::Counts counts = queue_.counts();
  MutexLock lock(&mutex_);
  SchedulerStats stats = stats_;
  stats.waiting = counts.waiting;
  stats.running = counts.running;
  stats.parked = counts.parked;
  return stats;
}

absl::Status ServingLoop::ReadCosts(CostInquiries::Read read) {
  if (!stats().ready) return absl::UnavailableError("no verifier is connected");
  return cost_inquiries_.Ask(std::move(read), kInquiryTimeout);
}

void ServingLoop::Run() {
  const ThreadRoleScope scope(&cycle_thread_);
  while (RunGuarded()) {
  }
  running_.FailAll(ForClient(absl::UnavailableError("the service is shutting down")));
  link_.Save();
}

bool ServingLoop::RunGuarded() {
  try {
    return RunLoop();
  } catch (const std::exception& error) {
    // The state of the running requests is unknown. They start over.
    LOG(ERROR) << "the cycle threw: " << error.what();
    if (link_.connected()) loss_.Lose(absl::InternalError("the cycle failed"));
    queue_.Sleep(kIdleWait);
    return true;
  }
}

bool ServingLoop::RunLoop() {
  if (!AwaitWork()) return false;
  if (link_.connected()) {
    if (const absl::Status alive = link_.CheckAlive(); !alive.ok()) loss_.Lose(alive);
  }
  if (!link_.connected()) {
    loss_.SuspendAll();  // An exception may have interrupted Lose.
    if (!link_.Connect()) {
      loss_.CheckPatience();
      queue_.Sleep(link_.pause());
      return true;
    }
  }
  running_.ReturnParked();
  Admit();
  if (link_.connected()) Step();
  if (!link_.connected()) {
    loss_.CheckPatience();
    queue_.Sleep(kIdleWait);  // A verifier that fails every call would be asked without a pause.
    return true;
  }
  running_.QueueOtherAnswers();
  running_.Retire();
  link_.SaveIfDue(Clock::Real().Now());
  running_.Park();
  if (admission_.Preempt(forward_size_)) prompts_alone_ = false;
  link_.UpdateDrafter(Clock::Real().Now());
  UpdateStats();
  cost_inquiries_.Answer(link_.session()->target, link_.session()->costs);
  return true;
}

void ServingLoop::OnLinkChange(const absl::Status& status) {
  VerifierLink::Session& session = *link_.session();
  if (status.ok()) {
    running_.set_free_tokens(KvCapacity(session.target));
    TellObserver(observer_, [this, &session](ServingObserver& observer) {
      if (observer.wants_reliability()) session.memory.set_reliability(&reliability_);
    });
  } else {
    queue_.Pause(status);
  }
  {
    MutexLock lock(&mutex_);
    stats_.target = session.target;
    stats_.drafter = link_.drafter();
    stats_.feature_route = link_.feature_route();
    stats_.free_kv_tokens = static_cast<int>(running_.free_tokens());
  }
  // SubmitAll reads the target after this, and clients may submit once `ready` is true.
  if (status.ok()) queue_.Accept();
  {
    MutexLock lock(&mutex_);
    stats_.ready = status.ok();
  }
  on_ready_(status.ok());
}

bool ServingLoop::AwaitWork() {
  if (!link_.connected() || !running_.empty()) return queue_.AwaitRequest(absl::ZeroDuration());
  return queue_.AwaitRequest(running_.has_parked() ? kParkedPoll : kIdleWait);
}

void ServingLoop::Admit() {
  const absl::Status opened = admission_.Admit([this](LiveRequest& request) {
    cycle_thread_.AssertHeld();
    loss_.SetLastCall({.decoding = {&request}, .chunks = {}});
    return link_.session()->cycle.TryOpen(request.sequence());
  });
  if (!opened.ok()) loss_.Lose(opened);
}

bool ServingLoop::PrepareMask(LiveRequest& request, absl::Duration began) {
  if (request.request().decode.constraint == nullptr) return true;
  DecodeSequence& sequence = request.sequence();
  const bool may_compute = ThreadCpuTime() - began < kMaskTime;
  const absl::StatusOr<bool> ready = sequence.PrepareMask(mask_worker_, may_compute);
  if (ready.ok()) return *ready;
  const absl::Status& error = ready.status();
  const bool is_raw = absl::IsInvalidArgument(error) && !IsForClient(error);
  sequence.Fail(is_raw ? FieldError("constraint", error.message()) : error);
  return false;
}

ServedCycle ServingLoop::PlanForward() {
  std::vector<LiveRequest*> decodes, prefills;  // The requests of the two lists below.
  std::vector<BatchCandidate> decoding, prompts;
  for (const Request& request : running_.all()) request->UpdateStall();
  const LiveRequest* const suspect = loss_.Suspect();
  const absl::Duration began = ThreadCpuTime();
  for (const Request& request : running_.all()) {
    if (!request->CanRun() || (suspect != nullptr && request.get() != suspect)) continue;
    DecodeSequence& sequence = request->sequence();
    if (request->prompt_left() > 0) {
      prefills.push_back(request.get());
      prompts.push_back({&sequence, &request->history});
    } else {
      request->MarkPrefilled();
      if (!PrepareMask(*request, began)) continue;
      decodes.push_back(request.get());
      decoding.push_back({&sequence, &request->history});
    }
  }
  if (prompts_alone_ && !prompts.empty()) decoding.clear();
  const VerifierLink::Session& session = *link_.session();
  const BatchLimits limits = {session.target.max_rows, options_.prefill_rows};
  const BatchPlan plan = bastion::PlanBatch(decoding, prompts, limits, session.costs);
  ServedCycle served;
  for (const size_t i : plan.decoding) served.decoding.push_back(decodes[i]);
  for (const auto& [i, rows] : plan.prompts) served.chunks.push_back({prefills[i], rows});
  served.waiting = plan.waiting;
  return served;
}

void ServingLoop::Step() {
  ServedCycle served = PlanForward();
  forward_size_ = served.decoding.size() + served.chunks.size();
  if (forward_size_ == 0) {
    // All clients are stalled, or the last requests have failed.
    if (running_.empty()) {
      loss_.EndWait();
    } else {
      queue_.Sleep(kStalledPoll);
    }
    return;
  }
  loss_.SetLastCall(served);
  if (const absl::Status stepped = RunCycle(served); !stepped.ok()) return loss_.Lose(stepped);
  loss_.EndWait();
  running_.set_free_tokens(link_.session()->cycle.free_kv_tokens());
  prompts_alone_ = !served.decoding.empty() &&
                   std::any_of(served.chunks.begin(), served.chunks.end(), [](const auto& chunk) {
                     return chunk.request->sequence().starved();
                   });
  LogDraftStatus();
  admission_.FailRefused(served);
  Publish(std::move(served));
}

void ServingLoop::Publish(ServedCycle served) {
  std::erase_if(served.decoding, [](const LiveRequest* request) {
    return !request->sequence().status().ok() || request->sequence().starved();
  });
  for (LiveRequest* request : served.decoding) request->PublishCycle();
  const CycleSummary& cycle = link_.session()->cycle.last();
  TellObserver(observer_, [&](ServingObserver& observer) { observer.OnCycle(cycle, served); });
  for (const Request& request : running_.all()) {
    if (const int tokens = request->TakeCommitted(); tokens > 0) queue_.Charge(*request, tokens);
  }
}

absl::Status ServingLoop::RunCycle(const ServedCycle& served) {
  Batch batch;
  std::vector<PromptChunk> chunks;
  chunks.reserve(served.chunks.size());
  for (LiveRequest* request : served.decoding) batch.push_back(&request->sequence());
  for (const auto& [request, tokens] : served.chunks) {
    chunks.push_back({&request->sequence(), tokens});
  }
  TraceContext context;
  TellObserver(observer_,
               [&](ServingObserver& observer) { context = observer.OnCycleBegin(served); });
  const TraceScope scope(context);
  return link_.session()->cycle.Step(batch, chunks, served.waiting);
}

void ServingLoop::LogDraftStatus() {
  const absl::Status& status = link_.session()->cycle.draft_status();
  if (status == last_draft_status_) return;
  last_draft_status_ = status;
  if (status.ok()) {
    LOG(INFO) << "drafts are available; decoding with speculation";
  } else {
    LOG(WARNING) << "no draft; decoding without speculation: " << status;
  }
}

void ServingLoop::UpdateStats() {
  MutexLock lock(&mutex_);
  stats_.preemptions = admission_.preemptions();
  stats_.free_kv_tokens = static_cast<int>(running_.free_tokens());
  stats_.audit = link_.session()->cycle.audit();
  stats_.drafter = link_.drafter();
  stats_.feature_route = link_.feature_route();
  stats_.drafts_succeed = !link_.drafter().empty() && link_.session()->cycle.draft_status().ok();
  stats_.reliability = reliability_.after;
}

}  // namespace bastion
