// PackingPlan: matrices to pack later. A loader first checks all tensors of a checkpoint, so that
// errors are reported early. Run then packs the matrices directly from the mapped files.
//
// Not thread-safe.
#ifndef BASTION_ENGINE_MODEL_PACKING_PLAN_H_
#define BASTION_ENGINE_MODEL_PACKING_PLAN_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/engine_options.h"
#include "engine/model/matrix.h"
#include "kernels/ops/pack.h"

namespace bastion::nn {

// RESOURCE_EXHAUSTED if weights of `bytes` do not fit into `available` bytes of memory, unless that
// is 0.
[[nodiscard]] absl::Status CheckFits(const std::string& folder, int64_t bytes, int64_t available,
                                     WeightFormat format);

class PackingPlan {
 public:
  // Adds a job: pack `parts` into matrix `index` of `to` (Device::Pack). `owner` keeps the file
  // that holds `parts` mapped. The plan shares it.
  void Add(std::vector<kernels::SourceMatrix> parts, const Matrix& to, int index,
           std::shared_ptr<const void> owner);

  // Runs all jobs on options.device. The progress bar, if `options` enables it, shows the name of
  // `folder` and the memory that the matrices take. RESOURCE_EXHAUSTED if the packed matrices do
  // not fit into the memory that is available, so that the system does not end the process while
  // it loads.
  [[nodiscard]] absl::Status Run(const std::string& folder, const EngineOptions& options) const;

  // The bytes of all packed matrices.
  [[nodiscard]] int64_t packed_bytes() const;

 private:
  struct Job {
    std::vector<kernels::SourceMatrix> parts;
    Matrix to;
    int index = 0;
    std::shared_ptr<const void> owner;
  };
  std::vector<Job> jobs_;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_PACKING_PLAN_H_
