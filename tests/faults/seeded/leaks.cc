#include "tests/faults/seeded/leaks.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"

namespace bastion::testing {
namespace {

// The metrics that are zero while no request runs.
const std::map<Service, std::vector<std::string>> kZeroWhenIdle = {
    {Service::kOrchestrator,
     {"bastion_requests_running", "bastion_requests_waiting", "bastion_requests_parked"}},
    {Service::kDrafter, {"bastion_drafter_sequences"}},
    {Service::kVerifier, {"bastion_verifier_sequences", "bastion_verifier_kv_cache_usage_ratio"}},
};

}  // namespace

std::vector<std::string> Leaks::Check() {
  StopWatch watch;
  std::vector<std::string> leaks;
  for (absl::Duration waited; waited < kSettle; waited += watch.Lap()) {
    leaks = Find();
    if (leaks.empty()) break;
    absl::SleepFor(absl::Milliseconds(100));
  }
  for (const Service service : kServices) {
    const auto i = static_cast<size_t>(service);
    if (baselines_[i].start != replica_.starts(service)) {
      baselines_[i] = {.start = replica_.starts(service), .usage = last_[i]};
    }
  }
  return leaks;
}

std::vector<std::string> Leaks::Find() {
  std::vector<std::string> leaks;
  for (const Service service : kServices) {
    const std::map<std::string, double> metrics = replica_.Metrics(service);
    for (const std::string& name : kZeroWhenIdle.at(service)) {
      const auto found = metrics.find(name);
      if (found == metrics.end()) {
        leaks.push_back(absl::StrCat(Name(service), " does not show ", name));
      } else if (found->second != 0) {
        leaks.push_back(absl::StrCat(name, " is ", found->second));
      }
    }
    CompareProcess(service, leaks);
  }
  return leaks;
}

void Leaks::CompareProcess(Service service, std::vector<std::string>& leaks) {
  const auto i = static_cast<size_t>(service);
  const ProcessUsage usage = last_[i] = ReadUsage(replica_.process(service).pid());
  const Baseline& baseline = baselines_[i];
  if (baseline.start != replica_.starts(service)) return;
  const auto compare = [&](const char* what, int64_t now, int64_t before, int64_t tolerance) {
    if (now <= before + tolerance) return;
    leaks.push_back(absl::StrCat(Name(service), " has ", now, " ", what, "; at first ", before));
  };
  compare("threads", usage.threads, baseline.usage.threads, kThreads);
  compare("descriptors", usage.descriptors, baseline.usage.descriptors, kDescriptors);
  compare("bytes of memory", usage.resident_bytes, baseline.usage.resident_bytes, kBytes);
}

std::string Leaks::Usage() const {
  std::string line;
  for (const Service service : kServices) {
    const ProcessUsage& usage = last_[static_cast<size_t>(service)];
    absl::StrAppend(&line, line.empty() ? "" : ", ", Name(service), " ", usage.threads, " threads ",
                    usage.descriptors, " descriptors ", usage.resident_bytes >> 20, " MB");
  }
  return line;
}

}  // namespace bastion::testing
