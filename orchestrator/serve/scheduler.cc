#include "orchestrator/serve/scheduler.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "orchestrator/cost/calibration.h"

namespace bastion {
namespace {

// The pause between two attempts to reach the verifier grows by 25 percent each time. So connecting
// adds at most 25 percent to the time that the verifier takes to start.
constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Milliseconds(250);

// Session ids are random, so that a restarted orchestrator does not reuse ids from its previous
// run.
uint64_t NewSession() {
  absl::BitGen bits;
  return absl::Uniform<uint64_t>(bits);
}

bool SameTarget(const TargetInfo& a, const TargetInfo& b) {
  return a.model == b.model && a.device == b.device && a.dims.vocabulary == b.dims.vocabulary &&
         a.dims.layers == b.dims.layers && a.dims.hidden == b.dims.hidden &&
         a.dims.bytes_per_element == b.dims.bytes_per_element && a.max_rows == b.max_rows &&
         a.max_context == b.max_context;
}

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, Verifier* verifier, Drafter* drafter,
                     std::function<void(bool)> on_ready)
    : options_(options),
      verifier_(verifier),
      drafter_(drafter),
      on_ready_(std::move(on_ready)),
      thread_([this] { Main(); }) {}

Scheduler::~Scheduler() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

absl::Status Scheduler::Submit(std::unique_ptr<LiveRequest> request) {
  MutexLock lock(&mutex_);
  if (draining_) return absl::UnavailableError("the service is shutting down; try another replica");
  if (!stats_.ready) {
    return absl::UnavailableError(
        "the verifier is not reachable or not ready yet; try again later");
  }
  if (static_cast<int>(waiting_.size()) >= options_.max_waiting) {
    return absl::ResourceExhaustedError(absl::StrCat("the queue is full: ", options_.max_waiting,
                                                     " requests are waiting; try again later"));
  }
  waiting_.push_back(std::move(request));
  stats_.waiting = static_cast<int>(waiting_.size());
  return absl::OkStatus();
}

void Scheduler::Drain(absl::Duration grace) {
  MutexLock lock(&mutex_);
  draining_ = true;
  const auto idle = [this] {
    mutex_.AssertHeld();
    return waiting_.empty() && stats_.running == 0;
  };
  mutex_.AwaitWithTimeout(idle, grace);
}

SchedulerStats Scheduler::stats() const {
  MutexLock lock(&mutex_);
  return stats_;
}

void Scheduler::Main() {
  for (;;) {
    {
      MutexLock lock(&mutex_);
      if (stopping_) break;
    }
    if (!stats().ready && !Connect()) continue;
    AwaitWork();
    Admit();
    Prefill();
    Step();
    Retire();
  }
  FailAll(absl::UnavailableError("the service is shutting down"));
  if (options_.learned == nullptr) return;
  options_.learned->WaitForSave();
  if (const absl::Status saved = options_.learned->Save(); !saved.ok()) {
    LOG(ERROR) << "could not save the learned prior: " << saved;
  }
}

bool Scheduler::Connect() {
  absl::StatusOr<TargetInfo> target = verifier_->Info();
  absl::Status status = target.status();
  if (status.ok() && (engine_ == nullptr || !SameTarget(engine_->target, *target))) {
    absl::StatusOr<std::unique_ptr<Engine>> engine = MakeEngine(*target);
    status = engine.status();
    if (engine.ok()) engine_ = *std::move(engine);
  }
  if (!status.ok()) {
    if (!last_connect_error_ || *last_connect_error_ != status) {
      LOG(WARNING) << "waiting for the verifier: " << status;
    }
    last_connect_error_ = status;
    MutexLock lock(&mutex_);
    pause_ = std::clamp(1.25 * pause_, kFirstPause, kLongestPause);
    const auto stopping = [this] {
      mutex_.AssertHeld();
      return stopping_;
    };
    mutex_.AwaitWithTimeout(stopping, pause_);
    return false;
  }
  pause_ = absl::ZeroDuration();
  last_connect_error_.reset();
  const absl::StatusOr<DrafterInfo> drafter = drafter_->Info();
  if (!drafter.ok()) {
    LOG(WARNING) << "no drafter; decoding without speculation: " << drafter.status();
  }
  {
    MutexLock lock(&mutex_);
    stats_.target = engine_->target;
    stats_.drafter = drafter.ok() ? drafter->model : "";
  }
  SetReady(true);
  return true;
}

absl::StatusOr<std::unique_ptr<Scheduler::Engine>> Scheduler::MakeEngine(const TargetInfo& target) {
  if (target.dims.vocabulary != options_.vocabulary) {
    return absl::FailedPreconditionError(
        absl::StrCat("the verifier's model has a vocabulary of ", target.dims.vocabulary,
                     ", but the orchestrator's model folder has a vocabulary of ",
                     options_.vocabulary, "; start both with the same --target"));
  }
  LOG(INFO) << "verifier connected: " << target.model << " on " << target.device
            << "; calibrating the cost model";
  StopWatch watch;
  ASSIGN_OR_RETURN(
      const CalibrationTable table,
      CalibrateWithBar(*verifier_, "calibrating",
                       {.time_limit = options_.calibration_limit, .session = NewSession()}));
  ASSIGN_OR_RETURN(CostModel costs, CostModel::Fit(target, table));
  LOG(INFO) << "cost model calibrated up to " << table.max_rows() << " rows in " << watch.Lap();
  const PriorInputs prior_inputs = {
      .vocabulary = options_.vocabulary,
      .table = options_.table,
      .learned = options_.learned == nullptr ? nullptr : options_.learned->counts()};
  return std::make_unique<Engine>(target, std::move(costs), prior_inputs, drafter_, verifier_);
}

void Scheduler::SetReady(bool ready) {
  {
    MutexLock lock(&mutex_);
    if (stats_.ready == ready) return;
    stats_.ready = ready;
  }
  on_ready_(ready);
}

void Scheduler::AwaitWork() {
  const auto has_work = [this] {
    mutex_.AssertHeld();
    return stopping_ || !waiting_.empty() || !running_.empty();
  };
  MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(has_work, absl::Milliseconds(500));
}

void Scheduler::Admit() {
  while (static_cast<int>(running_.size()) < options_.max_running) {
    std::unique_ptr<LiveRequest> next;
    {
      MutexLock lock(&mutex_);
      if (waiting_.empty()) return;
      next = std::move(waiting_.front());
      waiting_.pop_front();
      stats_.waiting = static_cast<int>(waiting_.size());
      stats_.running = static_cast<int>(running_.size()) + 1;
    }
    next->CreateSequence({NewSession(), 0}, &engine_->costs, &engine_->memory);
    engine_->cycle.Open(next->sequence());
    running_.push_back(std::move(next));
  }
}

void Scheduler::Prefill() {
  for (const std::unique_ptr<LiveRequest>& request : running_) {
    DecodeSequence& sequence = request->sequence();
    if (sequence.done() || !sequence.cycles().empty() || request->stream()->canceled()) continue;
    if (!engine_->cycle.Prefill(sequence, options_.prefill_chunk)) request->MarkPrefilled();
  }
}

void Scheduler::Step() {
  Batch batch;
  std::vector<LiveRequest*> owners;
  for (const std::unique_ptr<LiveRequest>& request : running_) {
    DecodeSequence& sequence = request->sequence();
    const bool ready = !sequence.done() && sequence.NextPrefill(1).tokens.empty();
    if (!ready || request->stream()->canceled()) continue;
    if (request->stream()->full()) {
      if (!request->stalled_since) request->stalled_since = Clock::Real().Now();
      continue;
    }
    request->stalled_since.reset();
    batch.push_back(&sequence);
    owners.push_back(request.get());
  }
  if (batch.empty()) {
    // No request can decode: all clients are stalled, or the last prefill failed. Do not spin.
    if (!running_.empty()) absl::SleepFor(absl::Milliseconds(1));
    return;
  }
  const absl::Status stepped = engine_->cycle.Step(batch);
  if (!stepped.ok()) {
    LOG(ERROR) << "verify failed: " << stepped;
    FailAll(absl::UnavailableError(
        absl::StrCat("the connection to the verifier was lost: ", stepped.message())));
    SetReady(false);
    return;
  }
  if (engine_->cycle.draft_status() != last_draft_status_) {
    last_draft_status_ = engine_->cycle.draft_status();
    if (last_draft_status_.ok()) {
      LOG(INFO) << "drafts are available; decoding with speculation";
    } else {
      LOG(WARNING) << "no draft; decoding without speculation: " << last_draft_status_;
    }
  }
  for (LiveRequest* owner : owners) {
    if (owner->sequence().status().ok()) owner->PublishCycle();
  }
}

bool Scheduler::FailIfAbandoned(LiveRequest& request) const {
  if (request.stream()->canceled()) {
    request.Fail(absl::CancelledError("the client disconnected"));
    return true;
  }
  if (request.stalled_since &&
      Clock::Real().Now() - *request.stalled_since > options_.slow_client) {
    request.Fail(absl::ResourceExhaustedError(absl::StrCat(
        "the client has not read its answer for ", absl::FormatDuration(options_.slow_client))));
    return true;
  }
  return false;
}

void Scheduler::Retire() {
  const auto is_over = [this](const std::unique_ptr<LiveRequest>& request) {
    DecodeSequence& sequence = request->sequence();
    if (!FailIfAbandoned(*request) && !sequence.done()) return false;
    if (!sequence.status().ok()) request->Fail(sequence.status());
    engine_->cycle.Close(sequence, *drafter_);
    return true;
  };
  running_.erase(std::remove_if(running_.begin(), running_.end(), is_over), running_.end());
  if (options_.learned != nullptr) options_.learned->SaveIfDue(Clock::Real().Now());
  MutexLock lock(&mutex_);
  stats_.running = static_cast<int>(running_.size());
  if (engine_ != nullptr) stats_.audit = engine_->cycle.audit();
}

void Scheduler::FailAll(const absl::Status& status) {
  for (const std::unique_ptr<LiveRequest>& request : running_) {
    if (engine_ != nullptr) engine_->cycle.Close(request->sequence(), *drafter_);
    request->Fail(status);
  }
  running_.clear();
  MutexLock lock(&mutex_);
  for (const std::unique_ptr<LiveRequest>& request : waiting_) request->Fail(status);
  waiting_.clear();
  stats_.waiting = stats_.running = 0;
}

}  // namespace bastion
