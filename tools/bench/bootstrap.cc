#include "tools/bench/bootstrap.h"

#include <algorithm>
#include <random>

namespace bastion {

double RateRatio(const std::vector<PairedWork>& prompts) {
  PairedWork sum;
  for (const PairedWork& prompt : prompts) {
    sum.tokens += prompt.tokens;
    sum.seconds += prompt.seconds;
    sum.base_tokens += prompt.base_tokens;
    sum.base_seconds += prompt.base_seconds;
  }
  const double divisor = sum.seconds * sum.base_tokens;
  return divisor > 0 ? sum.tokens * sum.base_seconds / divisor : 0;
}

std::optional<Interval> BootstrapRatio(const std::vector<PairedWork>& prompts, int draws,
                                       uint64_t seed) {
  if (prompts.size() < 2) return std::nullopt;
  std::mt19937_64 random(seed);
  std::vector<double> ratios;
  std::vector<PairedWork> drawn(prompts.size());
  for (int draw = 0; draw < draws; ++draw) {
    for (PairedWork& prompt : drawn) prompt = prompts[random() % prompts.size()];
    ratios.push_back(RateRatio(drawn));
  }
  std::sort(ratios.begin(), ratios.end());
  const auto at = [&](double share) {
    return ratios[static_cast<size_t>(share * static_cast<double>(ratios.size() - 1) + 0.5)];
  };
  return Interval{at(0.025), at(0.975)};
}

}  // namespace bastion
