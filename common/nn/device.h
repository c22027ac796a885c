// Where and how a model runs. The services' main functions fill this in.
#ifndef BASTION_COMMON_NN_DEVICE_H_
#define BASTION_COMMON_NN_DEVICE_H_

#include <cstdint>
#include <string>

#include "kernels/backend/backend.h"

namespace bastion::nn {

// A table of kernels and the team that runs them. One forward at a time.
struct Device {
  const kernels::Backend* backend = nullptr;
  kernels::ThreadPool* pool = nullptr;
};

// Of what is not multiplied, the KV cache and the embedding table, where matrices are of `dtype`.
[[nodiscard]] constexpr DType StoredType(DType dtype) {
  return dtype == DType::kF32 ? dtype : DType::kBF16;
}

struct EngineOptions {
  DType dtype = DType::kBF16;  // Of the weight matrices.
  Device device;
  int kv_tokens = 65536;       // Tokens that the KV cache holds, all sequences together.
  bool show_progress = false;  // A bar on stderr while weights are loaded.
  // For engines on a GPU: which one, the file that keeps how its matrices are best multiplied
  // (empty: found out at every start), and the most of one forward, as its memory is laid out once.
  int gpu = 0;
  std::string gemm_table = {};
  int max_rows = 512;
  int max_sequences = 64;
  // Of a GPU's memory where the target's features lie for a drafter on the same GPU; 0: none.
  int64_t share_bytes = 0;
};

// What one forward needs, whoever computes it: the floor that its time is compared with.
struct ForwardCost {
  DType dtype = DType::kF32;          // Of the matrices.
  int64_t weight_bytes = 0;           // Read once for all rows.
  int64_t kv_bytes_per_token = 0;     // Read for each cached token, once for all rows.
  int64_t multiply_adds_per_row = 0;  // Of weights; attention left out.

  void Add(const kernels::PackedMatrix& matrix) {
    dtype = matrix.dtype;
    weight_bytes += static_cast<int64_t>(matrix.bytes());
    multiply_adds_per_row += int64_t{matrix.rows} * matrix.columns;
  }
};

}  // namespace bastion::nn

#endif  // BASTION_COMMON_NN_DEVICE_H_
