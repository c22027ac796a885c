#include "engine/host/expert_groups.h"

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
void MultiplyGroups(const HostKernels& host, const std::vector<int32_t>& begins,
                    const Matrix& matrices, const float* x, float* y) {
  for (int e = 0; e < matrices.count; ++e) {
    const int rows = begins[e + 1] - begins[e];
    if (rows == 0) continue;
    kernels::LinearArgs args;
    args.x = x + int64_t{begins[e]} * matrices.columns;
    args.weight = {matrices.format, matrices.rows, matrices.columns, matrices.data(e)};
    args.y = y + int64_t{begins[e]} * matrices.rows;
    args.rows = rows;
    args.y_stride = matrices.rows;
    host.backend->linear(args, *host.pool);
  }
}

int CountTouched(const std::vector<int32_t>& begins) {
  int touched = 0;
  for (size_t e = 0; e + 1 < begins.size(); ++e) touched += begins[e + 1] > begins[e] ? 1 : 0;
  return touched;
}

}  // namespace

int RunExperts(const HostKernels& host, const ExpertArgs& args, const ExpertRows& rows,
               ExpertScratch& scratch) {
  const kernels::Backend& run = *host.backend;
  const hub::ExpertsConfig& config = *args.config;
  const int width = args.router->columns, choices = rows.rows * config.chosen;
  float* shares = scratch.weights.Reserve(rows.rows, config.chosen);  // [R, k]
  float* grouped = scratch.grouped.Reserve(choices, width);           // [R k, C]
  float* gate_up =
      scratch.gate_up.Reserve(choices, int64_t{2} * config.intermediate);        // [R k, 2 I]
  float* activation = scratch.activation.Reserve(choices, config.intermediate);  // [R k, I]
  float* outputs = scratch.outputs.Reserve(choices, width);                      // [R k, C]
  scratch.experts.resize(choices);

  run.route({rows.logits, scratch.experts.data(), shares, rows.rows, config.count, config.chosen,
             config.normalize},
            *host.pool);
  GroupByExpert(config, scratch);
  run.gather_rows({rows.normed, scratch.sources.data(), grouped, choices, width}, *host.pool);
  MultiplyGroups(host, scratch.begins, *args.gate_up, grouped, gate_up);
  run.silu_mul({gate_up, activation, choices, config.intermediate}, *host.pool);
  MultiplyGroups(host, scratch.begins, *args.down, activation, outputs);
  run.combine({outputs, scratch.places.data(), shares, rows.x, rows.rows, config.chosen, width},
              *host.pool);
  return CountTouched(scratch.begins);
}

}  // namespace bastion::nn
