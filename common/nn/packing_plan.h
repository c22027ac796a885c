// Matrices that wait to be packed. A model is put together first, which finds what is wrong with
// its checkpoint at once; then all of its matrices are packed in one go, straight from the mapped
// files.
//
// Not thread-safe.
#ifndef BASTION_COMMON_NN_PACKING_PLAN_H_
#define BASTION_COMMON_NN_PACKING_PLAN_H_

#include <string>
#include <vector>

#include "common/nn/device.h"
#include "kernels/pack.h"

namespace bastion::nn {

class PackingPlan {
 public:
  // `parts`, in a mapped file that stays mapped until Run, are to be packed into `to` (PackMatrix).
  void Add(std::vector<kernels::SourceMatrix> parts, const kernels::PackedMatrix& to);

  // Packs what was added, on the team of `options`; a progress bar there is named for `folder`.
  void Run(const std::string& folder, const EngineOptions& options) const;

 private:
  struct Job {
    std::vector<kernels::SourceMatrix> parts;
    kernels::PackedMatrix to;
  };
  std::vector<Job> jobs_;
};

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_PACKING_PLAN_H_
