// A scheduler over fake stages, for the tests of its behavior under load.
#ifndef BASTION_TESTS_ORCHESTRATOR_SCHEDULE_SCHEDULER_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_SCHEDULE_SCHEDULER_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "orchestrator/schedule/scheduler.h"
#include "tests/orchestrator/schedule/live_request_fixture.h"
#include "tests/support/fake_stages.h"

namespace bastion::testing {

// A fake verifier that the test can inspect and control while the scheduler's thread uses it.
class SharedVerifier final : public Verifier {
 public:
  // The size of one Verify call.
  struct Call {
    int trees = 0;
    int tree_rows = 0;
    int prompt_rows = 0;
    int opened = 0;  // Sequences that were opened before the call.
  };

  absl::StatusOr<TargetInfo> Info() override {
    MutexLock lock(&mutex_);
    if (unavailable_) return absl::UnavailableError("connection refused");
    return Current().Info();
  }
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override {
    MutexLock lock(&mutex_);
    absl::SleepFor(open_time_);
    if (open_error_.has_value()) return *std::exchange(open_error_, std::nullopt);
    opened_.push_back(sampling.seed);
    if (unavailable_) return absl::UnavailableError("the stream broke");
    if (sampling.seed == ends_verifier_at_seed_) return absl::UnavailableError("the stream broke");
    if (!open_errors_.ok()) return open_errors_;
    return Current().Open(sequence, sampling);
  }
  absl::StatusOr<int> ReusePrefix(const PrefixItem& item) override {
    MutexLock lock(&mutex_);
    if (unavailable_) return absl::UnavailableError("the stream broke");
    return Current().ReusePrefix(item);
  }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    const auto may_go_on = [this] { return !held_; };
    MutexLock lock(&mutex_);
    waiting_ = true;
    mutex_.AwaitWithTimeout(may_go_on, absl::Seconds(60));
    waiting_ = false;
    if (on_verify_) on_verify_(forest);
    if (unavailable_) return absl::UnavailableError("the stream broke");
    for (const VerifyItem& item : forest) {
      if (item.tree.token(0) == ends_verifier_) return absl::UnavailableError("the stream broke");
    }
    if (std::exchange(throws_, false)) throw std::bad_alloc();
    Call& call = calls_.emplace_back();
    call.trees = static_cast<int>(forest.size());
    call.opened = static_cast<int>(opened_.size());
    for (const VerifyItem& item : forest) call.tree_rows += item.tree.rows();
    for (const PrefillItem& item : prompts) {
      call.prompt_rows += static_cast<int>(item.tokens.size());
    }
    return refuses_all_ ? Refuse(forest, prompts) : Current().Verify(forest, prompts);
  }
  void Close(SequenceId sequence) override {
    MutexLock lock(&mutex_);
    Current().Close(sequence);
  }

  absl::Status CheckAlive() override {
    MutexLock lock(&mutex_);
    return unavailable_ ? absl::UnavailableError("no answer") : absl::OkStatus();
  }

  // While unavailable, all calls fail, and the state of all sequences is lost.
  void SetUnavailable(bool unavailable) {
    MutexLock lock(&mutex_);
    unavailable_ = unavailable;
    restarted_ = true;
  }
  // The next Open fails with `error`.
  void FailNextOpen(absl::Status error) {
    MutexLock lock(&mutex_);
    open_error_ = std::move(error);
  }
  // The next Verify throws.
  void ThrowOnce() {
    MutexLock lock(&mutex_);
    throws_ = true;
  }
  // Every Verify begins with a call of `callback`, on the cycle's thread.
  void SetOnVerify(std::function<void(const Forest&)> callback) {
    MutexLock lock(&mutex_);
    on_verify_ = std::move(callback);
  }
  // While set, every Verify refuses all items for lack of memory, although it states free pages.
  void RefuseAll(bool refuses) {
    MutexLock lock(&mutex_);
    refuses_all_ = refuses;
  }
  // Every Verify of a tree with this root fails.
  void EndAtRoot(TokenId root) {
    MutexLock lock(&mutex_);
    ends_verifier_ = root;
  }
  // Every Open with this seed fails.
  void EndAtSeed(uint64_t seed) {
    MutexLock lock(&mutex_);
    ends_verifier_at_seed_ = seed;
  }
  // Every Open fails with this error.
  void SetOpenError(const absl::Status& error) {
    MutexLock lock(&mutex_);
    open_errors_ = error;
  }
  // Every Open takes this long.
  void SetOpenTime(absl::Duration open_time) {
    MutexLock lock(&mutex_);
    open_time_ = open_time;
  }
  // While held, every Verify call waits.
  void Hold(bool held) {
    MutexLock lock(&mutex_);
    held_ = held;
  }
  // Waits until a Verify call waits, so that all further requests miss it; false after 20 seconds.
  // REQUIRES: the calls are held.
  bool AwaitHeldCall() {
    const auto waits = [this] { return waiting_; };
    MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(waits, absl::Seconds(20));
  }
  // Forgets the calls so far, e.g. those of the profile.
  void ForgetCalls() {
    MutexLock lock(&mutex_);
    opened_.clear();
    calls_.clear();
  }
  // The seeds of the sequences in the order in which they were opened.
  std::vector<uint64_t> opened() {
    MutexLock lock(&mutex_);
    return opened_;
  }
  std::vector<Call> calls() {
    MutexLock lock(&mutex_);
    return calls_;
  }
  // Waits until there are `sequences` open sequences; false after 20 seconds.
  bool AwaitLive(int sequences) {
    const auto reached = [&] { return fake_.live_sequences() == sequences; };
    MutexLock lock(&mutex_);
    return mutex_.AwaitWithTimeout(reached, absl::Seconds(20));
  }
  // For settings before the scheduler starts.
  FakeVerifier* fake() { return &fake_; }

 private:
  // For calls of the cycle's thread. The state is lost here, because the fake drafter reads it on
  // this thread without a lock.
  FakeVerifier& Current() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(restarted_, false)) {
      FakeVerifier restarted;
      restarted.kv_tokens = fake_.kv_tokens;
      restarted.max_context = fake_.max_context;
      restarted.identity = fake_.identity;
      fake_ = std::move(restarted);
    }
    return fake_;
  }
  absl::StatusOr<VerifyResult> Refuse(const Forest& forest, absl::Span<const PrefillItem> prompts)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const absl::Status refused = absl::ResourceExhaustedError("the device is full");
    VerifyResult result = *Current().Verify({}, {});
    result.outcomes.assign(forest.size(), {refused, {}});
    result.prompts.assign(prompts.size(), refused);
    return result;
  }

  Mutex mutex_;
  FakeVerifier fake_;
  bool unavailable_ = false, restarted_ = false, throws_ = false;
  std::optional<absl::Status> open_error_;
  TokenId ends_verifier_ = kNoToken;
  std::optional<uint64_t> ends_verifier_at_seed_;
  absl::Duration open_time_;
  absl::Status open_errors_;
  std::function<void(const Forest&)> on_verify_;
  bool refuses_all_ = false;
  bool held_ = false, waiting_ = false;
  std::vector<uint64_t> opened_;
  std::vector<Call> calls_;
};

// The real clock, unless the test sets it forward or makes it fail.
class ControlledClock final : public Clock {
 public:
  absl::Duration Now() const override {
    if (throws_.exchange(false)) throw std::bad_alloc();
    return Clock::Real().Now() + absl::Hours(skipped_hours_.load());
  }
  void SkipHour() { ++skipped_hours_; }
  // The next call of Now throws.
  void ThrowOnce() { throws_ = true; }

 private:
  mutable std::atomic<bool> throws_ = false;
  std::atomic<int> skipped_hours_ = 0;
};

// All events of one request.
struct Answer {
  std::vector<TokenId> tokens;
  absl::Status status;
  OutputEnd end;
};

// Reads the stream to its end. DEADLINE_EXCEEDED "no event" if it does not end.
[[nodiscard]] inline Answer ReadAll(RequestStream& stream) {
  Answer answer;
  OutputDelta delta;
  for (;;) {
    switch (stream.WaitForEvent(absl::Seconds(20), delta)) {
      case RequestStream::Event::kTimeout:
        answer.status = absl::DeadlineExceededError("no event");
        return answer;
      case RequestStream::Event::kDelta:
        answer.tokens.insert(answer.tokens.end(), delta.tokens.begin(), delta.tokens.end());
        if (delta.end) answer.end = *delta.end;
        break;
      case RequestStream::Event::kEnd:
        answer.status = stream.status();
        return answer;
    }
  }
}

class SchedulerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    options_.link.dims = verifier_.Info()->dims;
    options_.link.profile_limit = absl::Seconds(1);
  }

  void Start() {
    maker_.set_observer(observer_);
    clocked_maker_.set_observer(observer_);
    scheduler_ = std::make_unique<Scheduler>(
        options_, &verifier_, used_drafter_, [](bool) {}, observer_);
  }
  // Waits until `condition` holds; false after 20 seconds.
  static bool Await(absl::FunctionRef<bool()> condition) {
    for (int i = 0; i < 10000; ++i) {
      if (condition()) return true;
      absl::SleepFor(absl::Milliseconds(2));
    }
    return false;
  }
  bool AwaitReady(bool ready) {
    return Await([&] { return scheduler_->stats().ready == ready; });
  }
  void StartAndAwaitReady() {
    Start();
    ASSERT_TRUE(AwaitReady(true));
    verifier_.ForgetCalls();
  }
  // Waits until no request runs, waits or is parked, and the cycle's thread has dropped those that
  // were canceled. They no longer count before.
  bool AwaitIdle() {
    const bool idle = Await([&] {
      const SchedulerStats stats = scheduler_->stats();
      return stats.running == 0 && stats.waiting == 0 && stats.parked == 0;
    });
    // The thread answers once per loop, so a whole loop lies between two answers.
    for (int i = 0; i < 2; ++i) (void)scheduler_->ReadCosts([](const auto&, const auto&) {});
    return idle;
  }

  // Waits until the scheduler counts `tokens` free tokens in the KV cache.
  bool AwaitFreeTokens(int tokens) {
    return Await([&] { return scheduler_->stats().free_kv_tokens == tokens; });
  }

  // Submits a request and returns its stream.
  std::shared_ptr<RequestStream> Submit(const RequestSpec& spec) {
    return SubmitRequest(maker_.Make(spec));
  }
  // The same for a request that reads clock_.
  std::shared_ptr<RequestStream> SubmitClocked(const RequestSpec& spec) {
    return SubmitRequest(clocked_maker_.Make(spec));
  }
  std::shared_ptr<RequestStream> SubmitRequest(std::unique_ptr<LiveRequest> request) {
    auto stream = request->stream();
    const absl::Status submitted = scheduler_->Submit(std::move(request));
    EXPECT_TRUE(submitted.ok()) << submitted;
    return stream;
  }
  absl::Status TrySubmit(const RequestSpec& spec) { return scheduler_->Submit(maker_.Make(spec)); }
  // Submits a request whose client reads nothing. Returns when its stream is full.
  std::shared_ptr<RequestStream> SubmitStalled(int max_tokens = 400) {
    auto stream = Submit({.prompt = {1, 2}, .max_tokens = max_tokens});
    EXPECT_TRUE(Await([&] { return stream->full(); }));
    return stream;
  }
  // `count` tokens that differ from request to request.
  static std::vector<TokenId> Prompt(int count, int request = 0) {
    std::vector<TokenId> prompt;
    for (int i = 0; i < count; ++i) prompt.push_back((i * 7 + request) % kToyVocabulary);
    return prompt;
  }

  // Submits the requests that `submit` submits so that they begin to decode in the same forward.
  // Their prompts have one token.
  void SubmitTogether(absl::FunctionRef<void()> submit) {
    verifier_.Hold(true);
    const auto before = Submit({.prompt = {1}, .max_tokens = 1});
    ASSERT_TRUE(verifier_.AwaitHeldCall());
    submit();
    verifier_.Hold(false);
    EXPECT_TRUE(ReadAll(*before).status.ok());
  }
  // clock_ throws in the first forward with two trees, when their output is published.
  void ThrowAfterForwardOfTwo() {
    verifier_.SetOnVerify([this, armed = true](const Forest& forest) mutable {
      if (forest.size() == 2 && std::exchange(armed, false)) clock_.ThrowOnce();
    });
  }

  ControlledClock clock_;
  RequestMaker maker_, clocked_maker_{&clock_};
  SchedulerOptions options_;
  SharedVerifier verifier_;
  FakeDrafter drafter_{verifier_.fake()};
  Drafter* used_drafter_ = &drafter_;
  ServingObserver* observer_ = nullptr;
  std::unique_ptr<Scheduler> scheduler_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_SCHEDULE_SCHEDULER_FIXTURE_H_
