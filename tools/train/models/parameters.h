// Parameters: the tensors of a drafter's checkpoint: those that training changes, and constants.
#ifndef BASTION_TOOLS_TRAIN_MODELS_PARAMETERS_H_
#define BASTION_TOOLS_TRAIN_MODELS_PARAMETERS_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tools/train/models/draws.h"

namespace bastion::train {

struct Parameter {
  std::string name;
  at::Tensor value;  // fp32, contiguous; records gradients.
  // Whether it maps one space to another. The rows of embeddings and heads belong to tokens, which
  // learn at their own pace.
  bool is_map = false;
};

class Parameters {
 public:
  // `seed` draws the initial values.
  explicit Parameters(uint64_t seed) : draws_(seed, /*step=*/0) {}

  // Adds a vector that begins with ones: the weights of a norm.
  at::Tensor AddOnes(const std::string& name, int64_t width) {
    return Add({name, at::ones({width}, at::kFloat)});
  }
  // Adds a map whose products keep the scale of their inputs.
  at::Tensor AddMap(const std::string& name, int64_t rows, int64_t columns) {
    return Add({name, Normal({rows, columns}, 1 / std::sqrt(columns)), /*is_map=*/true});
  }
  // Adds a map that begins with zeros, so that what it adds to does not change at first.
  at::Tensor AddZeroMap(const std::string& name, int64_t rows, int64_t columns) {
    return Add({name, at::zeros({rows, columns}, at::kFloat), /*is_map=*/true});
  }
  // Adds a tensor with these first values.
  at::Tensor AddValues(const std::string& name, const at::Tensor& values) {
    return Add({name, values.clone()});
  }
  // Adds a tensor of normal numbers that is no map.
  at::Tensor AddNormal(const std::string& name, at::IntArrayRef shape, double deviation) {
    return Add({name, Normal(shape, deviation)});
  }
  // Adds a row [columns] for each token.
  at::Tensor AddTokenRows(const std::string& name, int64_t rows, int64_t columns) {
    return Add({name, Normal({rows, columns}, 1 / std::sqrt(columns))});
  }

  // Replaces the values of the parameter `name`. REQUIRES: there is one, of the same shape.
  void Set(const std::string& name, const at::Tensor& values) const {
    const at::NoGradGuard no_gradients;
    for (const Parameter& parameter : all_) {
      if (parameter.name == name) parameter.value.copy_(values);
    }
  }

  // Adds a tensor that training does not change. `values`: contiguous, of int64.
  void AddConstant(const std::string& name, const at::Tensor& values) {
    constants_.push_back({name, values});
  }

  [[nodiscard]] const std::vector<Parameter>& all() const { return all_; }
  [[nodiscard]] const std::vector<Parameter>& constants() const { return constants_; }

 private:
  at::Tensor Add(Parameter parameter) {
    parameter.value.requires_grad_(true);
    all_.push_back(std::move(parameter));
    return all_.back().value;
  }
  at::Tensor Normal(at::IntArrayRef shape, double deviation) {
    at::Tensor values = at::empty(shape, at::kFloat);
    std::generate_n(values.data_ptr<float>(), values.numel(),
                    [&] { return static_cast<float>(deviation) * draws_.Normal(); });
    return values;
  }

  Draws draws_;
  std::vector<Parameter> all_, constants_;
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_PARAMETERS_H_
