#include "tests/faults/seeded/load.h"

#include <memory>
#include <random>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/status.h"

namespace bastion::testing {
namespace {

constexpr absl::Duration kTimeout = absl::Minutes(2);
// A client that was refused tries again after this time.
constexpr absl::Duration kRetry = absl::Milliseconds(50);
// The share of requests that their clients cancel: one in this many.
constexpr int kCanceledOneIn = 8;

// Requests that differ in prompt, policy, sampling and length. The first one drafts and is short.
std::vector<v1::GenerateRequest> MakeRequests() {
  const char* const prompts[] = {"import os\nimport sys\n\n\ndef main(argv):\n", "class Stack:\n",
                                 "def test_"};
  const char* const policies[] = {"fixed:8", "ar", "default", "chain", "adaptive"};
  std::vector<v1::GenerateRequest> requests;
  for (int i = 0; i < 10; ++i) {
    v1::GenerateRequest& request = requests.emplace_back();
    request.set_text(prompts[i % 3]);
    if (i % 2 == 1) request.mutable_sampling()->set_temperature(0.9f);
    request.mutable_sampling()->set_seed(static_cast<uint64_t>(i));
    request.mutable_stop()->set_max_tokens(static_cast<uint32_t>(20 + 15 * i));
    request.mutable_stop()->set_ignore_eos(true);
    request.mutable_speculation()->set_policy(policies[i % 5]);
  }
  return requests;
}

}  // namespace

Load::Load(const Replica& replica, int clients, uint64_t seed) : replica_(replica) {
  for (v1::GenerateRequest& request : MakeRequests()) references_.push_back({request, ""});
  for (int i = 0; i < clients; ++i) {
    threads_.emplace_back([this, seed, i] { Main(seed * 1000 + static_cast<uint64_t>(i)); });
  }
}

Load::~Load() {
  {
    MutexLock lock(&mutex_);
    stopping_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

absl::Status Load::MakeReferences() {
  const std::unique_ptr<GenerationClient> client = replica_.MakeClient();
  for (Reference& reference : references_) {
    const Outcome outcome = Send(*client, reference, /*deltas=*/-1);
    if (!outcome.status.ok()) return outcome.status;
    reference.text = outcome.text;
  }
  return absl::OkStatus();
}

void Load::Resume() {
  MutexLock lock(&mutex_);
  running_ = true;
  first_tokens_ = 0;
}

bool Load::AwaitFirstTokens(int count, absl::Duration limit) {
  MutexLock lock(&mutex_);
  const auto reached = [&] {
    mutex_.AssertHeld();
    return first_tokens_ >= count;
  };
  return mutex_.AwaitWithTimeout(reached, limit);
}

std::vector<Outcome> Load::Take() {
  MutexLock lock(&mutex_);
  return std::exchange(outcomes_, {});
}

std::vector<Outcome> Load::Pause() {
  MutexLock lock(&mutex_);
  running_ = false;
  const auto idle = [this] {
    mutex_.AssertHeld();
    return sending_ == 0;
  };
  mutex_.AwaitWithTimeout(idle, absl::InfiniteDuration());
  return std::exchange(outcomes_, {});
}

void Load::Main(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::unique_ptr<GenerationClient> client = replica_.MakeClient();
  for (;;) {
    {
      MutexLock lock(&mutex_);
      const auto told = [this] {
        mutex_.AssertHeld();
        return running_ || stopping_;
      };
      mutex_.AwaitWithTimeout(told, absl::InfiniteDuration());
      if (stopping_) return;
      ++sending_;
    }
    const Reference& reference = references_[random() % references_.size()];
    const int deltas = random() % kCanceledOneIn == 0 ? static_cast<int>(random() % 8) : -1;
    Outcome outcome = Send(*client, reference, deltas);
    if (!outcome.status.ok() && !outcome.canceled) {
      absl::SleepFor(kRetry);
      client = replica_.MakeClient();
    }
    MutexLock lock(&mutex_);
    outcomes_.push_back(std::move(outcome));
    --sending_;
  }
}

Outcome Load::Send(GenerationClient& client, const Reference& reference, int deltas) {
  Outcome outcome;
  int seen = 0;
  const RpcOptions once = {.timeout = kTimeout, .retry = {.max_attempts = 1}};
  outcome.status = client.Generate(
      reference.request,
      [&](const v1::GenerateResponse& event) {
        outcome.accepted = true;
        if (event.has_finished()) {
          outcome.draft_tokens = event.finished().speculation().draft_tokens();
        }
        if (!event.has_delta()) return true;
        outcome.text += event.delta().text();
        if (seen == 0) {
          MutexLock lock(&mutex_);
          ++first_tokens_;
        }
        outcome.canceled = seen++ == deltas;
        return !outcome.canceled;
      },
      once);
  outcome.right = outcome.status.ok() ? outcome.text == reference.text
                                      : absl::StartsWith(reference.text, outcome.text);
  return outcome;
}

}  // namespace bastion::testing
