#include "tools/bench/load_figures.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "orchestrator/cost/latency_profile.h"

namespace bastion {
namespace {

std::optional<Quantiles> QuantilesOf(const std::vector<double>& values) {
  if (values.empty()) return std::nullopt;
  return Quantiles{Quantile(values, 0.5), Quantile(values, 0.9), Quantile(values, 0.99)};
}

// Jain's index: (Σx)² / (n·Σx²).
double JainsIndex(const std::vector<double>& rates) {
  double sum = 0, squares = 0;
  for (const double rate : rates) {
    sum += rate;
    squares += rate * rate;
  }
  return squares > 0 ? sum * sum / (static_cast<double>(rates.size()) * squares) : 0;
}

// What counts of one request.
struct Counted {
  int tokens = 0;
  std::optional<double> ttft;
  std::vector<double> gaps;
  std::vector<double> tokens_seconds;  // One value per token.

  [[nodiscard]] bool Meets(const LatencyTargets& targets) const {
    return (!ttft.has_value() || *ttft <= targets.ttft) &&
           (gaps.empty() || Quantile(gaps, 0.99) <= targets.gap);
  }
};

Counted Count(const PromptMeasurement& request, const LoadWindow& window) {
  Counted counted;
  for (size_t i = 0; i < request.deltas.size(); ++i) {
    const Delta& delta = request.deltas[i];
    if (!window.Contains(delta.at)) continue;
    counted.tokens += delta.tokens;
    if (i == 0) {
      counted.ttft = delta.at - request.arrived;
      continue;
    }
    const double gap = delta.at - request.deltas[i - 1].at;
    counted.gaps.push_back(gap);
    counted.tokens_seconds.insert(counted.tokens_seconds.end(), delta.tokens, gap / delta.tokens);
  }
  return counted;
}

void AppendTo(const std::vector<double>& more, std::vector<double>* values) {
  values->insert(values->end(), more.begin(), more.end());
}

}  // namespace

double LoadRun::seconds() const {
  double last = 0;
  for (const PromptMeasurement& request : requests) last = std::max(last, request.ended);
  return last;
}

void Append(LoadRun more, LoadRun* run) {
  const double began = run->seconds();
  for (PromptMeasurement& request : more.requests) {
    request.arrived += began;
    request.ended += began;
    for (Delta& delta : request.deltas) delta.at += began;
    run->requests.push_back(std::move(request));
  }
  run->rejected += more.rejected;
  run->reliability.Add(more.reliability);
}

LoadWindow WindowOf(const LoadRun& run, const LoadLevel& level) {
  const std::vector<PromptMeasurement>& requests = run.requests;
  if (requests.empty()) return {};
  if (!level.closed()) return {requests.front().arrived, run.seconds()};
  const auto live = static_cast<size_t>(level.concurrency);
  if (requests.size() < live) return {};
  LoadWindow window;
  std::vector<double> ends;
  for (size_t i = 0; i < requests.size(); ++i) {
    if (i < live && !requests[i].deltas.empty()) {
      window.begin = std::max(window.begin, requests[i].deltas.front().at);
    }
    ends.push_back(requests[i].ended);
  }
  // All but the last `live` ends are followed by a new request.
  const auto last = ends.begin() + static_cast<std::ptrdiff_t>(ends.size() - live);
  std::nth_element(ends.begin(), last, ends.end());
  window.end = *last;
  return window;
}

double Quantile(std::vector<double> values, double q) {
  const double rank = std::ceil(q * static_cast<double>(values.size()));
  const auto at =
      values.begin() + std::max<std::ptrdiff_t>(0, static_cast<std::ptrdiff_t>(rank) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

LoadFigures ComputeLoadFigures(absl::Span<const LoadRun> runs, const LoadLevel& level,
                               const LatencyTargets& targets) {
  LoadFigures figures;
  double all_tokens = 0, window_tokens = 0, good_tokens = 0;
  std::vector<double> ttft, gaps, tokens_seconds, stream_rates, rates;
  for (const LoadRun& run : runs) {
    const LoadWindow window = WindowOf(run, level);
    figures.requests += static_cast<int>(run.requests.size());
    figures.rejected += run.rejected;
    figures.seconds += run.seconds();
    figures.window_seconds += window.seconds();
    for (const PromptMeasurement& request : run.requests) {
      const auto tokens = static_cast<double>(request.output.size());
      const Counted counted = Count(request, window);
      all_tokens += tokens;
      window_tokens += counted.tokens;
      if (counted.Meets(targets)) good_tokens += counted.tokens;
      if (counted.ttft.has_value()) ttft.push_back(*counted.ttft);
      AppendTo(counted.gaps, &gaps);
      AppendTo(counted.tokens_seconds, &tokens_seconds);
      if (request.seconds > 0) stream_rates.push_back(tokens / request.seconds);
      if (request.ended > request.arrived) {
        rates.push_back(tokens / (request.ended - request.arrived));
      }
    }
  }
  if (all_tokens > 0) figures.window_share = window_tokens / all_tokens;
  if (figures.seconds > 0) figures.all_tokens_per_second = all_tokens / figures.seconds;
  if (figures.window_seconds > 0) {
    figures.tokens_per_second = window_tokens / figures.window_seconds;
    figures.goodput = good_tokens / figures.window_seconds;
  }
  figures.fairness = JainsIndex(rates);
  figures.ttft = QuantilesOf(ttft);
  figures.gap = QuantilesOf(gaps);
  figures.token = QuantilesOf(tokens_seconds);
  figures.stream_rate = QuantilesOf(stream_rates);
  return figures;
}

std::optional<RatioToPlain> RatioOf(const ArmResults& arm, const LevelResults& level) {
  const auto plain = std::find_if(level.arms.begin(), level.arms.end(),
                                  [](const ArmResults& other) { return other.policy == "ar"; });
  if (plain == level.arms.end()) return std::nullopt;
  const auto throughput = [&](const LoadRun& run) {
    return ComputeLoadFigures({run}, level.level, {}).tokens_per_second;
  };
  std::vector<double> ratios;
  for (size_t round = 0; round < arm.rounds.size(); ++round) {
    const double reference = throughput(plain->rounds[round]);
    if (reference <= 0) return std::nullopt;
    ratios.push_back(throughput(arm.rounds[round]) / reference);
  }
  if (ratios.empty()) return std::nullopt;
  const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
  return RatioToPlain{Median(ratios), *low, *high};
}

}  // namespace bastion
