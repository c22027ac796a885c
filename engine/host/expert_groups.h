// The experts of a block on the CPU. Rows are grouped by expert, so that a forward reads the
// weights of an expert once, however many rows chose it, and not at all if none did.
//
// A row's result does not depend on the other rows: its experts are added in ascending order.
// Not thread-safe: the blocks of one decoder share scratch memory.
#ifndef BASTION_ENGINE_HOST_EXPERT_GROUPS_H_
#define BASTION_ENGINE_HOST_EXPERT_GROUPS_H_

#include <vector>

#include "engine/model/buffer.h"
#include "engine/model/device.h"

namespace bastion::nn {

struct ExpertScratch {
  Scratch logits, weights, grouped, gate_up, activation, outputs;
  std::vector<int32_t> experts;  // [R, k], ascending in each row
  std::vector<int32_t> begins;   // [E + 1]: expert e has the places [begins[e], begins[e + 1])
  std::vector<int32_t> sources;  // [R k]: the row of each place
  std::vector<int32_t> places;   // [R, k]: the place of each choice
};

// Rows `normed` [R, C] with their router logits [R, E], and the rows x [R, C] to which their
// results are added.
struct ExpertRows {
  const float* normed = nullptr;
  const float* logits = nullptr;
  int rows = 0;
  float* x = nullptr;
};

// x += mixture(normed). Returns the number of experts that at least one row chose.
int RunExperts(const HostKernels& host, const ExpertArgs& args, const ExpertRows& rows,
               ExpertScratch& scratch);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_HOST_EXPERT_GROUPS_H_
