// ChildProfile: the mean values of the first children of an expanded node, given that the node is
// accepted. Predicts what expanding a node would bring before the drafter is asked. Header-only.
// Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_BELIEF_CHILD_PROFILE_H_
#define BASTION_ORCHESTRATOR_BELIEF_CHILD_PROFILE_H_

#include <array>

namespace bastion {

class ChildProfile {
 public:
  static constexpr int kChildren = 4;
  using Values = std::array<double, kChildren>;  // Non-increasing. 0: no such child.

  [[nodiscard]] const Values& values() const { return values_; }

  // Records the children of one expanded node.
  void Observe(const Values& values) {
    constexpr double kAlpha = 1.0 / 32;
    for (int i = 0; i < kChildren; ++i) values_[i] += kAlpha * (values[i] - values_[i]);
  }

 private:
  Values values_ = {0.6, 0.12, 0.05, 0.03};  // Before the first observation.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_BELIEF_CHILD_PROFILE_H_
