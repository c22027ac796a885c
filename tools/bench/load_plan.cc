#include "tools/bench/load_plan.h"

#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion {
namespace {

constexpr int kMaxRequests = 1'000'000;

// Requests for the prompts, in order. They repeat until there are `count`.
absl::StatusOr<std::vector<PlannedRequest>> RepeatPrompts(const std::vector<BenchPrompt>& prompts,
                                                          double count, int max_new_tokens) {
  if (count > kMaxRequests) {
    return absl::InvalidArgumentError(
        absl::StrCat("the load has ", count, " requests; at most ", kMaxRequests,
                     " are possible. Lower --repeat, --rate or --duration"));
  }
  std::vector<PlannedRequest> requests;
  requests.reserve(static_cast<size_t>(count));
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    requests.push_back({&prompts[i % prompts.size()], max_new_tokens, absl::ZeroDuration()});
  }
  return requests;
}

absl::StatusOr<LoadPlan> PlanClosedLoop(const LoadOptions& options, int concurrency,
                                        std::vector<PlannedRequest> requests) {
  const bool endless = options.duration < absl::InfiniteDuration();
  if (!endless && requests.size() < static_cast<size_t>(concurrency)) {
    return absl::InvalidArgumentError(absl::StrCat("--concurrency ", concurrency,
                                                   " needs at least as many requests; there are ",
                                                   requests.size(), ". Raise --repeat"));
  }
  return LoadPlan{{.concurrency = concurrency}, std::move(requests), concurrency, options.duration};
}

LoadPlan PlanPoisson(const LoadOptions& options, double rate, uint64_t seed,
                     std::vector<PlannedRequest> requests) {
  SetPoissonArrivals(rate, seed, &requests);
  while (!requests.empty() && requests.back().arrival > options.duration) requests.pop_back();
  return {{.rate = rate}, std::move(requests), options.max_running};
}

}  // namespace

std::string LoadLevel::ToString() const {
  if (closed()) return absl::StrCat("concurrency ", concurrency);
  return rate > 0 ? absl::StrCat("rate ", rate, "/s") : absl::StrCat("arrivals in ", arrivals);
}

void SetPoissonArrivals(double rate, uint64_t seed, std::vector<PlannedRequest>* requests) {
  std::mt19937_64 random(seed);
  double at = 0;
  for (PlannedRequest& request : *requests) {
    request.arrival = absl::Seconds(at);
    // Uniform in (0, 1]. The standard distributions differ between libraries.
    const double uniform = std::ldexp(static_cast<double>((random() >> 11) + 1), -53);
    at -= std::log(uniform) / rate;
  }
}

absl::StatusOr<std::vector<LoadPlan>> PlanLoads(const LoadOptions& options,
                                                const std::vector<BenchPrompt>& prompts,
                                                const BenchSettings& settings) {
  const double once = static_cast<double>(prompts.size()) * options.repeat;
  std::vector<LoadPlan> plans;
  for (const int concurrency : options.concurrency) {
    ASSIGN_OR_RETURN(auto requests, RepeatPrompts(prompts, once, settings.max_new_tokens));
    ASSIGN_OR_RETURN(plans.emplace_back(),
                     PlanClosedLoop(options, concurrency, std::move(requests)));
  }
  for (const double rate : options.rates) {
    // Three times the mean: a Poisson process hardly ever has more arrivals in this time.
    const double count = options.duration < absl::InfiniteDuration()
                             ? 16 + 3 * rate * absl::ToDoubleSeconds(options.duration)
                             : once;
    ASSIGN_OR_RETURN(auto requests, RepeatPrompts(prompts, count, settings.max_new_tokens));
    plans.push_back(PlanPoisson(options, rate, settings.sampling.seed, std::move(requests)));
  }
  return plans;
}

LoadPlan PlanArrivals(const LoadOptions& options, const std::vector<TracedArrival>& arrivals,
                      const BenchSettings& settings) {
  LoadPlan plan = {{.arrivals = options.arrivals}, {}, options.max_running};
  for (const TracedArrival& arrival : arrivals) {
    const int limit = arrival.max_new_tokens > 0 ? arrival.max_new_tokens : settings.max_new_tokens;
    plan.requests.push_back({&arrival.prompt, limit, absl::Seconds(arrival.at_seconds)});
  }
  return plan;
}

}  // namespace bastion
