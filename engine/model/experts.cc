#include "engine/model/experts.h"

#include <algorithm>
#include <numeric>

namespace bastion::nn {
namespace {

// Sorts the choices by expert. The rows of an expert stay in order.
void GroupByExpert(const hub::ExpertsConfig& config, ExpertScratch& scratch) {
  const auto choices = static_cast<int32_t>(scratch.experts.size());
  scratch.begins.assign(config.count + 1, 0);
  for (const int32_t expert : scratch.experts) ++scratch.begins[expert + 1];
  std::partial_sum(scratch.begins.begin(), scratch.begins.end(), scratch.begins.begin());
  scratch.sources.resize(choices);
  scratch.places.resize(choices);
  std::vector<int32_t> next(scratch.begins.begin(), scratch.begins.end() - 1);
  for (int32_t choice = 0; choice < choices; ++choice) {
    const int32_t place = next[scratch.experts[choice]]++;
    scratch.places[choice] = place;
    scratch.sources[place] = choice / config.chosen;
  }
}

// The rows of each expert times its matrix: y [R k, N] = x [R k, K] Wᵀ.
void MultiplyGroups(const Device& device, const std::vector<int32_t>& begins,
                    const std::vector<Matrix>& matrices, const float* x, float* y) {
  for (size_t e = 0; e < matrices.size(); ++e) {
    const int rows = begins[e + 1] - begins[e];
    if (rows == 0) continue;
    const kernels::PackedMatrix& matrix = matrices[e].packed;
    device.backend->linear({x + int64_t{begins[e]} * matrix.columns, matrix,
                            y + int64_t{begins[e]} * matrix.rows, rows, matrix.rows, false},
                           *device.pool);
  }
}

int CountTouched(const std::vector<int32_t>& begins) {
  int touched = 0;
  for (size_t e = 0; e + 1 < begins.size(); ++e) touched += begins[e + 1] > begins[e] ? 1 : 0;
  return touched;
}

}  // namespace

int AddExperts(const Device& device, const hub::ExpertsConfig& config, const BlockWeights& weights,
               const ExpertRows& rows, ExpertScratch& scratch) {
  const kernels::Backend& run = *device.backend;
  kernels::ThreadPool& pool = *device.pool;
  const int width = weights.router.packed.columns, choices = rows.rows * config.chosen;
  float* logits = scratch.logits.Reserve(rows.rows, config.count);    // [R, E]
  float* shares = scratch.weights.Reserve(rows.rows, config.chosen);  // [R, k]
  float* grouped = scratch.grouped.Reserve(choices, width);           // [R k, C]
  float* gate_up =
      scratch.gate_up.Reserve(choices, int64_t{2} * config.intermediate);        // [R k, 2 I]
  float* activation = scratch.activation.Reserve(choices, config.intermediate);  // [R k, I]
  float* outputs = scratch.outputs.Reserve(choices, width);                      // [R k, C]
  scratch.experts.resize(choices);

  run.linear({rows.normed, weights.router.packed, logits, rows.rows, config.count, false}, pool);
  run.route({logits, scratch.experts.data(), shares, rows.rows, config.count, config.chosen,
             config.normalize},
            pool);
  GroupByExpert(config, scratch);
  run.gather_rows({rows.normed, scratch.sources.data(), grouped, choices, width}, pool);
  MultiplyGroups(device, scratch.begins, weights.expert_gate_up, grouped, gate_up);
  run.silu_mul({gate_up, activation, choices, config.intermediate}, pool);
  MultiplyGroups(device, scratch.begins, weights.expert_down, activation, outputs);
  run.combine({outputs, scratch.places.data(), shares, rows.x, rows.rows, config.chosen, width},
              pool);
  return CountTouched(scratch.begins);
}

}  // namespace bastion::nn
