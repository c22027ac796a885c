// ExpertCost: how the experts of a target with a mixture of experts change the time of a verify
// call.
//
// A forward reads the weights of each expert that any of its rows chose, once. So its time depends
// on the number of experts that it touches, in addition to its rows. The profile measures
// random tokens, whose rows choose nearly independently of each other. The rows of a text choose
// more alike and touch fewer experts, so a call that touches e experts takes
//
//   table(rows) · (1 + s·(e − touched(rows)) / seconds(rows))
//
// where touched(rows) and seconds(rows) are what the profile measured at the smallest context,
// and s is the time that one more expert takes (expert_profile.h).
//
// Before a call, e is not known. R rows of a text are expected to touch as many experts as
// 1 + d·(R − 1) rows of the profile. The diversity d starts at 1, and every call moves it
// toward the value that explains the experts that the call touched. As in staircase.h, one factor
// belongs to all sizes, so that the first calls teach all of them, and each measured row count has
// a factor of its own. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_EXPERT_COST_H_
#define BASTION_ORCHESTRATOR_COST_EXPERT_COST_H_

#include <memory>
#include <vector>

#include "orchestrator/cost/latency_profile.h"

namespace bastion {

class ExpertCost {
 public:
  static constexpr double kAlpha = 0.1;  // Step size of each factor.

  // Null if the target has no experts, or if more experts take no more time.
  [[nodiscard]] static std::shared_ptr<ExpertCost> Make(const LatencyProfile& table);

  // The experts that the next call is expected to touch, as a mean over layers. REQUIRES: rows
  // >= 1.
  [[nodiscard]] double Expected(int rows) const;
  // The time of a call that touches `experts` experts, relative to that of the table. Positive.
  [[nodiscard]] double Factor(int rows, double experts) const;

  // Learns from a call that touched `experts` experts.
  void Observe(int rows, double experts);

 private:
  // What the profile measured at some number of rows, neither decreasing with the rows; and the
  // logarithm of the row count's own factor.
  struct Knot {
    double rows = 0, experts = 0, seconds = 0, log_factor = 0;
  };

  ExpertCost(std::vector<Knot> knots, double expert_seconds);
  // Linear between the knots. Beyond the last one, only the seconds grow.
  [[nodiscard]] Knot At(double rows) const;
  // The least number of rows that touch `experts` experts; that of the last knot if none do.
  [[nodiscard]] double RowsThatTouch(double experts) const;

  // d
  [[nodiscard]] double Diversity(int rows) const;

  std::vector<Knot> knots_;  // At least two, with different rows.
  double expert_seconds_;    // s
  double log_diversity_ = 0;
  int observations_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_EXPERT_COST_H_
