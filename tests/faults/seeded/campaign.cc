#include "tests/faults/seeded/campaign.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"

namespace bastion::testing {
namespace {

absl::Duration Now() { return Clock::Real().Now(); }

// True if a request may end like this. REQUIRES: it failed, and its client did not cancel it.
bool IsAllowed(const Outcome& outcome, MayFail may_fail) {
  switch (may_fail) {
    case MayFail::kNone:
      return false;
    case MayFail::kRefused:
      return absl::IsUnavailable(outcome.status) && !outcome.accepted;
    case MayFail::kUnavailable:
      return absl::IsUnavailable(outcome.status);
    case MayFail::kNoMemory:
      return absl::IsUnavailable(outcome.status) || absl::IsResourceExhausted(outcome.status);
  }
  return false;
}

}  // namespace

std::vector<FaultKind> UsableKinds(const Replica& replica) {
  std::vector<FaultKind> kinds;
  for (const auto& some :
       {ProcessFaults(), ResourceFaults(), NetworkFaults(), CertificateFaults(), SilenceFaults()}) {
    std::copy_if(some.begin(), some.end(), std::back_inserter(kinds), [&](const FaultKind& kind) {
      return (replica.network() || !kind.needs_network) &&
             (!replica.network() || !kind.needs_shared_memory) &&
             (replica.has_small_disk() || !kind.needs_small_disk);
    });
  }
  return kinds;
}

Campaign::Campaign(Replica& replica, const CampaignOptions& options, std::ostream& log)
    : replica_(replica),
      options_(options),
      log_(log),
      random_(options.seed),
      health_(replica),
      load_(replica, options.clients, options.seed),
      leaks_(replica) {}

bool Campaign::Prepare() {
  if (!replica_.AwaitServing(absl::Seconds(60))) {
    log_ << "the services are not ready\n" << replica_.Log(Service::kOrchestrator);
    return false;
  }
  if (const absl::Status status = load_.MakeReferences(); !status.ok()) {
    log_ << "a request failed before all faults: " << status << "\n";
    return false;
  }
  // Under load once, so that the first check for leaks sees services that are warm.
  load_.Resume();
  const bool loaded = load_.AwaitFirstTokens(3 * options_.clients, absl::Seconds(60));
  for (const Outcome& outcome : load_.Pause()) {
    if (outcome.right && (outcome.status.ok() || outcome.canceled)) continue;
    log_ << "a request failed before all faults: " << outcome.status << "\n";
    return false;
  }
  const std::vector<std::string> leaks = leaks_.Check();
  if (!leaks.empty()) log_ << "leak before all faults: " << absl::StrJoin(leaks, "; ") << "\n";
  log_ << "ready: " << leaks_.Usage() << std::endl;
  return loaded && leaks.empty();
}

void Campaign::Run(const FaultKind& kind) {
  result_ = &results_[kind.name];
  ++result_->faults;
  ++number_;
  load_.Resume();
  (void)load_.AwaitFirstTokens(options_.clients, absl::Seconds(30));
  absl::SleepFor(Between(0, 300, random_));
  const std::unique_ptr<Fault> fault = kind.make(replica_, random_);
  may_fail_ = std::max(may_fail_, fault->traits().may_fail);
  const absl::Duration began = Now();
  Endure(*fault);
  const absl::Duration ended = Now();
  const absl::Duration recovery = Recover();
  result_->recoveries.push_back(recovery);
  CheckHealth(fault->traits(), began, ended);
  for (const std::string& finding : fault->findings()) Report(result_->failed, finding);
  if (number_ % options_.drain_every == 0) Drain();
  Judge(load_.Take());
  log_ << absl::StrFormat("%3d %-48s %5.2f s, recovered in %.2f s  %s", number_,
                          fault->traits().description, absl::ToDoubleSeconds(ended - began),
                          absl::ToDoubleSeconds(recovery), fault->effect())
       << std::endl;
}

void Campaign::Endure(Fault& fault) {
  const FaultTraits& traits = fault.traits();
  const auto restart = [&] {
    for (const std::string& ended : replica_.RestartEnded()) {
      if (traits.services_may_end) {
        log_ << "    ended and restarted: " << ended << "\n";
      } else {
        Report(result_->other, absl::StrCat("ended by itself: ", ended));
      }
    }
  };
  fault.Begin();
  StopWatch watch;
  // Ends of services that the fault has killed itself are its own business.
  for (absl::Duration waited; waited < traits.duration; waited += watch.Lap()) {
    if (traits.services_may_end) restart();
    absl::SleepFor(std::min(absl::Milliseconds(20), traits.duration - waited));
  }
  fault.End();
  restart();
}

absl::Duration Campaign::Recover() {
  const absl::Duration began = Now();
  for (;;) {
    for (const std::string& ended : replica_.RestartEnded()) {
      Report(result_->other, absl::StrCat("ended by itself after the fault: ", ended));
    }
    // A new client, because gRPC's connections wait before they try again.
    const Outcome outcome = load_.Probe(*replica_.MakeClient());
    if (outcome.status.ok() && !outcome.right) {
      Report(result_->wrong_texts, absl::StrCat("wrong text: ", outcome.text));
    }
    if (outcome.status.ok() && outcome.draft_tokens > 0 && replica_.IsServing()) break;
    if (Now() - began > kRecovery) {
      Report(result_->other, absl::StrCat("no recovery: ", outcome.status.ToString(), ", ",
                                          outcome.draft_tokens, " draft tokens"));
      break;
    }
    absl::SleepFor(absl::Milliseconds(20));
  }
  return Now() - began;
}

void Campaign::CheckHealth(const FaultTraits& traits, absl::Duration began, absl::Duration ended) {
  if (traits.health == Health::kServing && health_.WasNotServing(began, Now())) {
    Report(result_->other, "health was NOT_SERVING");
  }
  if (traits.health == Health::kNotServing && began + HealthHistory::kNotice < ended &&
      health_.WasServing(began + HealthHistory::kNotice, ended)) {
    Report(result_->other, "health was SERVING");
  }
}

void Campaign::Drain() {
  Judge(load_.Pause());
  may_fail_ = MayFail::kNone;
  for (const std::string& leak : leaks_.Check()) Report(result_->leaks, "leak: " + leak);
}

void Campaign::Judge(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) {
    ++result_->requests;
    if (!outcome.right) Report(result_->wrong_texts, "wrong text: " + outcome.text);
    if (outcome.canceled) {
      ++result_->canceled;
    } else if (!outcome.status.ok() && IsAllowed(outcome, may_fail_)) {
      ++result_->allowed;
    } else if (!outcome.status.ok()) {
      Report(result_->failed, absl::StrCat(outcome.accepted ? "an accepted" : "a",
                                           " request failed: ", outcome.status.ToString()));
    }
  }
}

void Campaign::Report(int& count, const std::string& what) {
  ++count;
  log_ << "    FAILED fault " << number_ << ": " << what << std::endl;
}

bool Campaign::passed() const {
  return std::all_of(results_.begin(), results_.end(), [](const auto& entry) {
    const KindResult& result = entry.second;
    return result.failed + result.wrong_texts + result.leaks + result.other == 0;
  });
}

std::string Campaign::Table() const {
  std::string table =
      "kind              faults requests canceled allowed  FAILED   WRONG   LEAKS   OTHER  "
      "recovery "
      "p50, max\n";
  for (const auto& [kind, result] : results_) {
    std::vector<absl::Duration> times = result.recoveries;
    std::sort(times.begin(), times.end());
    absl::StrAppendFormat(&table, "%-18s%6d%9d%9d%8d%8d%8d%8d%8d%9.2f s %6.2f s\n", kind,
                          result.faults, result.requests, result.canceled, result.allowed,
                          result.failed, result.wrong_texts, result.leaks, result.other,
                          absl::ToDoubleSeconds(times[times.size() / 2]),
                          absl::ToDoubleSeconds(times.back()));
  }
  return table + leaks_.Usage() + "\n";
}

}  // namespace bastion::testing
