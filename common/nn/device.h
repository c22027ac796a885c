// Where and how a model runs. No torch here: the services' main functions fill this in.
#ifndef BASTION_COMMON_NN_DEVICE_H_
#define BASTION_COMMON_NN_DEVICE_H_

#include "kernels/backend.h"

namespace bastion::nn {

// A table of kernels and the team that runs them. One forward at a time.
struct Device {
  const kernels::Backend* backend = nullptr;
  kernels::ThreadPool* pool = nullptr;
};

// Of what is not multiplied, the KV cache and the embedding table, where matrices are of `dtype`.
[[nodiscard]] constexpr kernels::DType StoredType(kernels::DType dtype) {
  return dtype == kernels::DType::kF32 ? dtype : kernels::DType::kBF16;
}

struct EngineOptions {
  kernels::DType dtype = kernels::DType::kBF16;  // Of the weight matrices.
  Device device;
  int kv_tokens = 65536;  // Tokens that the KV cache holds, all sequences together.
};

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_DEVICE_H_
