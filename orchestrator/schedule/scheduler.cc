#include "orchestrator/schedule/scheduler.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/cores.h"
#include "common/base/status.h"
#include "common/base/thread_time.h"
#include "common/stages/kv_pages.h"
#include "orchestrator/schedule/error_details.h"
#include "orchestrator/schedule/kv_admission.h"

namespace bastion {
namespace {

// How long the idle thread waits before it looks at the connection and the learned prior again.
constexpr absl::Duration kIdleWait = absl::Milliseconds(50);
// How often the thread looks for clients that have read while nothing else is to do.
constexpr absl::Duration kParkedPoll = absl::Milliseconds(10);
// Further requests wait for the next cycle once admissions have taken this long: the prior of a
// long prompt takes milliseconds, and running requests wait meanwhile.
constexpr absl::Duration kAdmissionTime = absl::Milliseconds(4);
// How long a call of ReadCosts waits. The thread answers such calls once per loop, also while idle.
constexpr absl::Duration kInquiryTimeout = absl::Seconds(5);

// The CPU time that the masks of all requests may take before a forward. Further ones are left to
// the mask worker.
constexpr absl::Duration kMaskTime = absl::Milliseconds(20);

int MaskThreads() { return std::max(1, static_cast<int>(UsableCores().size()) / 2); }

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, Verifier* verifier, Drafter* drafter,
                     std::function<void(bool)> on_ready, ServingObserver* observer)
    : options_(options),
      drafter_(drafter),
      on_ready_(std::move(on_ready)),
      observer_(observer),
      queue_(options.max_waiting),
      mask_worker_(MaskThreads()),
      link_(options.link, verifier, drafter,
            {.on_connect = [this] { OnLinkChange(absl::OkStatus()); },
             .on_loss = [this](const absl::Status& reason) { OnLinkChange(reason); },
             .on_replace =
                 [this] {
                   FailAll(ForClient(
                       absl::UnavailableError("the model was replaced; try again later")));
                 }}),
      thread_([this] { Main(); }) {}

Scheduler::~Scheduler() {
  queue_.Interrupt();
  thread_.join();
}

absl::Status Scheduler::SubmitAll(std::vector<std::unique_ptr<LiveRequest>> requests) {
  // Once the queue accepts requests, the target is known.
  RETURN_IF_ERROR(queue_.CheckRoom(static_cast<int>(requests.size()) - 1));
  const TargetInfo target = stats().target;
  for (const auto& request : requests) RETURN_IF_ERROR(FitToCapacity(target, *request));
  return queue_.PushAll(std::move(requests));
}

absl::Status Scheduler::Submit(std::unique_ptr<LiveRequest> request) {
  std::vector<std::unique_ptr<LiveRequest>> requests;
  requests.push_back(std::move(request));
  return SubmitAll(std::move(requests));
}

SchedulerStats Scheduler::stats() const {
  const RequestQueue::Counts counts = queue_.counts();
  MutexLock lock(&mutex_);
  SchedulerStats stats = stats_;
  stats.waiting = counts.waiting;
  stats.running = counts.running;
  stats.parked = counts.parked;
  return stats;
}

absl::Status Scheduler::ReadCosts(CostInquiries::Read read) {
  if (!stats().ready) return absl::UnavailableError("no verifier is connected");
  return cost_inquiries_.Ask(std::move(read), kInquiryTimeout);
}

void Scheduler::Main() {
  while (RunGuarded()) {
  }
  FailAll(ForClient(absl::UnavailableError("the service is shutting down")));
  link_.Save();
}

bool Scheduler::RunGuarded() {
  try {
    return RunLoop();
  } catch (const std::exception& error) {
    // The state of the running requests is unknown. They start over.
    LOG(ERROR) << "the cycle threw: " << error.what();
    if (link_.connected()) LoseVerifier(absl::InternalError("the cycle failed"));
    queue_.Sleep(kIdleWait);
    return true;
  }
}

bool Scheduler::RunLoop() {
  if (!AwaitWork()) return false;
  if (link_.connected()) {
    if (const absl::Status alive = link_.CheckAlive(); !alive.ok()) LoseVerifier(alive);
  }
  if (!link_.connected()) {
    SuspendAll();  // An exception may have interrupted LoseVerifier.
    if (!link_.Connect()) {
      CheckPatience();
      queue_.Sleep(link_.pause());
      return true;
    }
  }
  ReturnParked();
  Admit();
  if (link_.connected()) Step();
  if (!link_.connected()) {
    CheckPatience();
    queue_.Sleep(kIdleWait);  // A verifier that fails every call would be asked without a pause.
    return true;
  }
  QueueOtherAnswers();
  Retire();
  Park();
  Preempt();
  link_.UpdateDrafter(Clock::Real().Now());
  UpdateStats();
  cost_inquiries_.Answer(link_.engine()->target, link_.engine()->costs);
  return true;
}

void Scheduler::OnLinkChange(const absl::Status& status) {
  if (status.ok()) {
    free_tokens_ = KvCapacity(link_.engine()->target);
    TellObserver(observer_, [this](ServingObserver& observer) {
      if (observer.wants_reliability()) link_.engine()->memory.set_reliability(&reliability_);
    });
  } else {
    queue_.Pause(status);
  }
  {
    MutexLock lock(&mutex_);
    stats_.target = link_.engine()->target;
    stats_.drafter = link_.drafter();
  }
  // SubmitAll reads the target after this, and clients may submit once `ready` is true.
  if (status.ok()) queue_.Accept();
  {
    MutexLock lock(&mutex_);
    stats_.ready = status.ok();
  }
  on_ready_(status.ok());
}

bool Scheduler::AwaitWork() {
  if (!link_.connected() || !running_.empty()) return queue_.AwaitRequest(absl::ZeroDuration());
  return queue_.AwaitRequest(parked_.empty() ? kIdleWait : kParkedPoll);
}

void Scheduler::Admit() {
  VerifierLink::Engine& engine = *link_.engine();
  KvAdmission memory(engine.target, free_tokens_);
  for (const Request& request : running_) memory.Reserve(*request);
  // Half of the rows stay for prompts and nodes.
  const int slots = std::clamp(engine.target.max_rows / 2, 1, options_.max_running);
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
    if (next == nullptr) return;
    LiveRequest& request = *running_.emplace_back(std::move(next));
    if (!request.admitted()) {
      if (request.arrived() < full_at_) request.MarkWaitedForRoom();
      request.CreateSequence({NewSession(), 0}, admissions_++, &engine.costs, &engine.memory);
    }
    // For all pages, because those that it reuses may have counted as free.
    memory.Reserve(request);
    SetLastCall({.decoding = {&request}, .chunks = {}});
    if (const absl::Status opened = engine.cycle.TryOpen(request.sequence()); !opened.ok()) {
      return LoseVerifier(opened);
    }
    (void)request.TakeCommitted();  // Reused tokens take no time, so they are not charged.
    spent += watch.Lap();
  }
  if (static_cast<int>(running_.size()) >= slots) full_at_ = Clock::Real().Now();
}

void Scheduler::LogPressure() {
  const auto loops = pressure_log_.Count(Clock::Real().Now());
  if (!loops) return;
  LOG(INFO) << "admission waits for free pages of the KV cache (in " << *loops
            << " loops since the last such line): " << queue_.counts().waiting << " requests wait, "
            << running_.size() << " run, " << free_tokens_ << " tokens are free";
}

bool Scheduler::CanRun(const LiveRequest& request) {
  return !request.sequence().done() && request.CheckClient().ok() &&
         (request.prompt_left() > 0 || !request.stalled());
}

bool Scheduler::PrepareMask(LiveRequest& request, absl::Duration began) {
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

ServedCycle Scheduler::PlanTurn() {
  std::vector<LiveRequest*> decodes, prefills;  // The requests of the two lists below.
  std::vector<TurnCandidate> decoding, prompts;
  for (const Request& request : running_) request->UpdateStall();
  const LiveRequest* const suspect = Suspect();
  const absl::Duration began = ThreadCpuTime();
  for (const Request& request : running_) {
    if (!CanRun(*request) || (suspect != nullptr && request.get() != suspect)) continue;
    DecodeSequence& sequence = request->sequence();
    if (request->prompt_left() > 0) {
      prefills.push_back(request.get());
      prompts.push_back({&sequence, &request->turns});
    } else {
      request->MarkPrefilled();
      if (!PrepareMask(*request, began)) continue;
      decodes.push_back(request.get());
      decoding.push_back({&sequence, &request->turns});
    }
  }
  if (prompts_alone_ && !prompts.empty()) decoding.clear();
  const VerifierLink::Engine& engine = *link_.engine();
  const TurnLimits limits = {engine.target.max_rows, options_.prefill_rows};
  const TurnPlan plan = bastion::PlanTurn(decoding, prompts, limits, engine.costs);
  ServedCycle turn;
  for (const size_t i : plan.decoding) turn.decoding.push_back(decodes[i]);
  for (const auto& [i, rows] : plan.prompts) turn.chunks.push_back({prefills[i], rows});
  return turn;
}

void Scheduler::Step() {
  ServedCycle turn = PlanTurn();
  turn_size_ = turn.decoding.size() + turn.chunks.size();
  if (turn_size_ == 0) {
    // All clients are stalled, or the last requests have failed.
    if (running_.empty()) {
      lost_at_.reset();
    } else {
      queue_.Sleep(kStalledPoll);
    }
    return;
  }
  SetLastCall(turn);
  if (const absl::Status stepped = RunCycle(turn); !stepped.ok()) {
    return LoseVerifier(stepped);
  }
  lost_at_.reset();
  const DecodeCycle& cycle = link_.engine()->cycle;
  free_tokens_ = cycle.free_kv_tokens();
  prompts_alone_ = !turn.decoding.empty() &&
                   std::any_of(turn.chunks.begin(), turn.chunks.end(), [](const auto& chunk) {
                     return chunk.request->sequence().starved();
                   });
  LogDraftStatus();
  FailRefused(turn);
  std::erase_if(turn.decoding, [](const LiveRequest* request) {
    return !request->sequence().status().ok() || request->sequence().starved();
  });
  for (LiveRequest* request : turn.decoding) request->PublishCycle();
  TellObserver(observer_, [&](ServingObserver& observer) { observer.OnCycle(cycle.last(), turn); });
  for (const Request& request : running_) {
    if (const int tokens = request->TakeCommitted(); tokens > 0) queue_.Charge(*request, tokens);
  }
}

absl::Status Scheduler::RunCycle(const ServedCycle& turn) {
  Batch batch;
  std::vector<PromptChunk> chunks;
  chunks.reserve(turn.chunks.size());
  for (LiveRequest* request : turn.decoding) batch.push_back(&request->sequence());
  for (const auto& [request, tokens] : turn.chunks) {
    chunks.push_back({&request->sequence(), tokens});
  }
  TraceContext context;
  TellObserver(observer_,
               [&](ServingObserver& observer) { context = observer.OnCycleBegin(turn); });
  const TraceScope scope(context);
  return link_.engine()->cycle.Step(batch, chunks);
}

void Scheduler::LogDraftStatus() {
  const absl::Status& status = link_.engine()->cycle.draft_status();
  if (status == last_draft_status_) return;
  last_draft_status_ = status;
  if (status.ok()) {
    LOG(INFO) << "drafts are available; decoding with speculation";
  } else {
    LOG(WARNING) << "no draft; decoding without speculation: " << status;
  }
}

absl::Status Scheduler::CheckClient(const LiveRequest& request) const {
  if (absl::Status status = request.CheckClient(); !status.ok()) return status;
  const absl::Duration limit = options_.slow_client;
  if (request.total_stall() <= limit) return absl::OkStatus();
  return ForClient(absl::ResourceExhaustedError(absl::StrCat(
      "the client has not read its answer for ", absl::FormatDuration(limit), " in total")));
}

void Scheduler::QueueOtherAnswers() {
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

void Scheduler::Retire() {
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
  link_.SaveIfDue(Clock::Real().Now());
}

void Scheduler::UpdateStats() {
  MutexLock lock(&mutex_);
  stats_.preemptions = preemptions_;
  stats_.free_kv_tokens = static_cast<int>(free_tokens_);
  stats_.audit = link_.engine()->cycle.audit();
  stats_.drafter = link_.drafter();
  stats_.drafts_succeed = !link_.drafter().empty() && link_.engine()->cycle.draft_status().ok();
  stats_.reliability = reliability_.after;
}

}  // namespace bastion
