// Where a model runs: a table of kernels and the team that runs them. Thread-compatible; one forward
// at a time.
#ifndef BASTION_COMMON_NN_DEVICE_H_
#define BASTION_COMMON_NN_DEVICE_H_

#include "kernels/backend.h"

namespace bastion::nn {

struct Device {
  const kernels::Backend* backend = nullptr;
  kernels::ThreadPool* pool = nullptr;
};

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_DEVICE_H_
