// beam:WxD: the best W prefixes on each of D levels, the baseline of BASTION's Figure 8.
// Header-only.
#ifndef BASTION_ORCHESTRATOR_POLICY_BEAM_POLICY_H_
#define BASTION_ORCHESTRATOR_POLICY_BEAM_POLICY_H_

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "orchestrator/policy/policy_kind.h"
#include "orchestrator/tree/beam.h"

namespace bastion {

class BeamPolicy final : public NamedPolicyKind {
 public:
  static std::unique_ptr<const PolicyKind> Parse(std::optional<std::string_view> argument) {
    const size_t times = argument.has_value() ? argument->find('x') : std::string_view::npos;
    if (times == std::string_view::npos) return nullptr;
    const std::optional<int> width = ParsePolicyNumber(argument->substr(0, times));
    const std::optional<int> depth = ParsePolicyNumber(argument->substr(times + 1));
    if (!width.has_value() || !depth.has_value()) return nullptr;
    return std::make_unique<BeamPolicy>(*width, *depth);
  }
  BeamPolicy(int width, int depth) : width_(width), depth_(depth) {}

  int CandidatesFor(int max_nodes) const override { return std::min(width_, max_nodes); }
  int max_rounds() const override { return depth_; }
  GrownTree Grow(TokenId root, Candidates& candidates, const TreeLimits& limits, int horizon,
                 const CostModel& /*costs*/) const override {
    return Limit(GrowBeam(root, candidates, width_, depth_, limits.nodes), width_ * depth_, limits,
                 horizon);
  }

 private:
  const int width_;
  const int depth_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_BEAM_POLICY_H_
