#include "tools/sampling/rejection_sampler.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/base/status.h"

namespace bastion {
namespace {

// Separates these random numbers from the keyed noise of the same seed.
constexpr uint32_t kStream = 0x53705321;

}  // namespace

double Overlap(absl::Span<const double> p, absl::Span<const double> q) {
  CHECK_EQ(p.size(), q.size());
  double sum = 0;
  for (size_t x = 0; x < p.size(); ++x) sum += std::min(p[x], q[x]);
  return sum;
}

SampledPosition DescribePosition(absl::Span<const double> p, absl::Span<const double> q,
                                 bool accepted) {
  const auto best = std::max_element(q.begin(), q.end()) - q.begin();
  return {accepted, Overlap(p, q), p.at(best)};
}

double RejectionSampler::NextUniform() {
  const uint64_t draw = draws_++;
  const PhiloxCounter words =
      Philox4x32({static_cast<uint32_t>(draw), static_cast<uint32_t>(draw >> 32), kStream, 0},
                 PhiloxKeyOf(seed_));
  const uint64_t bits = (uint64_t{words[0]} << 32 | words[1]) >> 11;
  return static_cast<double>(bits) * 0x1p-53;
}

TokenId RejectionSampler::Draw(absl::Span<const double> weights) {
  const double target = NextUniform() * std::accumulate(weights.begin(), weights.end(), 0.0);
  double sum = 0;
  TokenId last = kNoToken;  // The last token with a positive weight so far.
  for (size_t x = 0; x < weights.size(); ++x) {
    if (weights[x] <= 0) continue;
    last = static_cast<TokenId>(x);
    sum += weights[x];
    if (sum > target) break;
  }
  CHECK(last != kNoToken);
  return last;
}

RejectionSampler::Decision RejectionSampler::Decide(absl::Span<const double> p,
                                                    absl::Span<const double> q, TokenId drafted) {
  CHECK_EQ(p.size(), q.size());
  if (NextUniform() * q[drafted] < p[drafted]) return {true, drafted};
  std::vector<double> rest(p.size());
  std::transform(p.begin(), p.end(), q.begin(), rest.begin(),
                 [](double target, double draft) { return std::max(0.0, target - draft); });
  const bool any = std::any_of(rest.begin(), rest.end(), [](double weight) { return weight > 0; });
  // Without a rest, p equals q up to rounding.
  return {false, Draw(any ? absl::MakeConstSpan(rest) : p)};
}

absl::StatusOr<SampledCycle> SampleCycle(int length, ChainSource& source,
                                         RejectionSampler& sampler) {
  std::vector<std::vector<double>> drafts;  // q of each position, [K, V].
  std::vector<TokenId> drafted;
  while (static_cast<int>(drafted.size()) < length) {
    ASSIGN_OR_RETURN(std::vector<double> q, source.Draft(drafted));
    if (q.empty()) break;
    drafted.push_back(sampler.Draw(q));
    drafts.push_back(std::move(q));
  }
  SampledCycle cycle;
  for (size_t i = 0; i < drafts.size(); ++i) {
    const std::vector<double>& q = drafts[i];
    ASSIGN_OR_RETURN(const std::vector<double> p, source.Target(cycle.tokens));
    const RejectionSampler::Decision decision = sampler.Decide(p, q, drafted[i]);
    cycle.positions.push_back(DescribePosition(p, q, decision.accepted));
    cycle.tokens.push_back(decision.token);
    if (!decision.accepted) return cycle;
  }
  ASSIGN_OR_RETURN(const std::vector<double> p, source.Target(cycle.tokens));
  cycle.tokens.push_back(sampler.Draw(p));
  return cycle;
}

}  // namespace bastion
