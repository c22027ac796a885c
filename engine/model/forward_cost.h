// ForwardCost: memory traffic and arithmetic of one forward on any device. The roofline model
// derives a lower bound on the forward's time from them. Plain data.
#ifndef BASTION_ENGINE_MODEL_FORWARD_COST_H_
#define BASTION_ENGINE_MODEL_FORWARD_COST_H_

#include <cmath>
#include <cstdint>

#include "common/base/weight_format.h"
#include "engine/model/matrix.h"

namespace bastion::nn {

struct ForwardCost {
  WeightFormat format = WeightFormat::kF32;  // Format of the matrices.
  int64_t weight_bytes = 0;                  // Read once for all rows. Experts are not included.
  int64_t kv_bytes_per_token = 0;            // Read for each cached token, once for all rows.
  int64_t multiply_adds_per_row = 0;         // In the weight matrices only, without attention.
  int64_t expert_bytes = 0;  // All experts. A row reads `chosen_experts` of each layer's.
  int experts = 0;           // Experts of a layer. 0: none.
  int chosen_experts = 0;

  void Add(const Matrix& matrix) {
    if (matrix.empty()) return;
    format = matrix.format;
    weight_bytes += static_cast<int64_t>(matrix.bytes);
    multiply_adds_per_row += int64_t{matrix.rows} * matrix.columns;
  }
  // Adds one matrix of each expert of a layer. REQUIRES: `experts` and `chosen_experts` are set.
  void AddExperts(const Matrix& matrix) {
    expert_bytes += static_cast<int64_t>(matrix.bytes) * matrix.count;
    multiply_adds_per_row += int64_t{matrix.rows} * matrix.columns * chosen_experts;
  }

  // Bytes of all weights.
  [[nodiscard]] int64_t stored_bytes() const { return weight_bytes + expert_bytes; }
  // Bytes of the weights that a forward of `rows` rows reads, if the rows choose their experts
  // independently of each other and with equal probabilities.
  [[nodiscard]] double ReadBytes(int rows) const {
    if (experts == 0) return static_cast<double>(weight_bytes);
    const double unused = std::pow(1 - static_cast<double>(chosen_experts) / experts, rows);
    return static_cast<double>(weight_bytes) + static_cast<double>(expert_bytes) * (1 - unused);
  }
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_FORWARD_COST_H_
