// FadingLine: a least-squares line y(x) over about the last `memory` points. With few points, or
// with points at one x only, the slope is damped toward 0. Copyable. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_COST_FADING_LINE_H_
#define BASTION_ORCHESTRATOR_COST_FADING_LINE_H_

#include <initializer_list>

namespace bastion {

class FadingLine {
 public:
  static constexpr double kMemory = 128;

  explicit FadingLine(double memory = kMemory) : kept_(1 - 1 / memory) {}

  void Observe(double x, double y) {
    for (double* sum : {&points_, &x_, &y_, &xx_, &xy_}) *sum *= kept_;
    points_ += 1;
    x_ += x;
    y_ += y;
    xx_ += x * x;
    xy_ += x * y;
  }

  [[nodiscard]] double points() const { return points_; }
  // REQUIRES: points() > 0.
  [[nodiscard]] double At(double x) const {
    const double mean_x = x_ / points_, mean_y = y_ / points_;
    const double slope = (xy_ - x_ * mean_y) / (xx_ - x_ * mean_x + kSlopeDamping);
    return mean_y + slope * (x - mean_x);
  }

 private:
  static constexpr double kSlopeDamping = 4;
  double kept_;
  double points_ = 0, x_ = 0, y_ = 0, xx_ = 0, xy_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_COST_FADING_LINE_H_
