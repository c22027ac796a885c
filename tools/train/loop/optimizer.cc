#include "tools/train/loop/optimizer.h"

#include <algorithm>
#include <cmath>

#include "tools/train/models/products.h"

namespace bastion::train {
namespace {

constexpr int kNewtonSchulzSteps = 5;
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;  // Its coefficients.

}  // namespace

at::Tensor Orthogonalize(const at::Tensor& matrices) {
  const bool tall = matrices.size(1) > matrices.size(2);
  at::Tensor x = tall ? matrices.transpose(1, 2) : matrices;
  x = (x / (x.norm(2, {1, 2}, /*keepdim=*/true) + 1e-7)).to(ProductType());
  for (int step = 0; step < kNewtonSchulzSteps; ++step) {
    const at::Tensor square = at::matmul(x, x.transpose(1, 2));
    x = kA * x + at::matmul(at::baddbmm(kB * square, square, square, 1, kC), x);
  }
  x = x.to(at::kFloat);
  return tall ? x.transpose(1, 2) : x;
}

Optimizer::Optimizer(const Parameters& parameters, const OptimizerOptions& options)
    : parameters_(parameters), options_(options) {
  const auto moment = [&](const char* kind, const Parameter& parameter) {
    moments_.push_back({kind + parameter.name, at::zeros_like(parameter.value.detach())});
    return moments_.back().value;
  };
  for (const Parameter& parameter : parameters.all()) {
    if (!parameter.is_map) {
      vectors_.push_back(
          {parameter.value, moment("first.", parameter), moment("second.", parameter)});
      continue;
    }
    auto group = std::find_if(matrices_.begin(), matrices_.end(), [&](const Matrices& other) {
      return other.values.front().sizes() == parameter.value.sizes();
    });
    if (group == matrices_.end()) group = matrices_.insert(group, Matrices());
    group->values.push_back(parameter.value);
    group->momentums.push_back(moment("momentum.", parameter));
  }
}

double Optimizer::Step(double rate) {
  const at::NoGradGuard no_gradients;
  ++steps_;
  const double norm = ClipGradients();
  for (const Matrices& matrices : matrices_) StepMatrices(matrices, rate);
  for (const Vector& vector : vectors_) StepVector(vector, rate);
  for (const Parameter& parameter : parameters_.all())
    at::Tensor(parameter.value).mutable_grad().reset();
  return norm;
}

double Optimizer::ClipGradients() {
  double squares = 0;
  for (const Parameter& parameter : parameters_.all()) {
    if (!parameter.value.grad().defined()) continue;
    const auto norm = parameter.value.grad().norm().item<double>();
    squares += norm * norm;
  }
  const double norm = std::sqrt(squares);
  if (options_.clip <= 0 || norm <= options_.clip) return norm;
  for (const Parameter& parameter : parameters_.all()) {
    const at::Tensor& gradient = parameter.value.grad();
    if (gradient.defined()) gradient.mul_(options_.clip / norm);
  }
  return norm;
}

void Optimizer::StepMatrices(const Matrices& matrices, double rate) const {
  std::vector<at::Tensor> wanted;
  for (size_t i = 0; i < matrices.values.size(); ++i) {
    const at::Tensor& gradient = matrices.values[i].grad();
    if (!gradient.defined()) return;  // The loss does not use these matrices.
    matrices.momentums[i].lerp_(gradient, 1 - options_.momentum);
    wanted.push_back(gradient.lerp(matrices.momentums[i], options_.momentum));  // Nesterov.
  }
  const at::Tensor directions = Orthogonalize(at::stack(wanted));
  const double scale =
      std::sqrt(std::max(1.0, static_cast<double>(directions.size(1)) / directions.size(2)));
  for (size_t i = 0; i < matrices.values.size(); ++i) {
    matrices.values[i].add_(directions[static_cast<int64_t>(i)], -options_.map_rate * rate * scale);
  }
}

void Optimizer::StepVector(const Vector& vector, double rate) const {
  const at::Tensor& gradient = vector.value.grad();
  if (!gradient.defined()) return;
  vector.first.lerp_(gradient, 1 - options_.beta1);
  vector.second.mul_(options_.beta2).addcmul_(gradient, gradient, 1 - options_.beta2);
  const double first = 1 - std::pow(options_.beta1, steps_);
  const double second = 1 - std::pow(options_.beta2, steps_);
  const at::Tensor spread = (vector.second.sqrt() / std::sqrt(second)).add_(options_.epsilon);
  vector.value.addcdiv_(vector.first, spread, -options_.vector_rate * rate / first);
}

}  // namespace bastion::train
