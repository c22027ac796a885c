// The options of an engine: device, element types and capacity. Main functions fill them in.
#ifndef BASTION_ENGINE_MODEL_DEVICE_H_
#define BASTION_ENGINE_MODEL_DEVICE_H_

#include <cmath>
#include <cstdint>
#include <string>

#include "kernels/ops/backend.h"

namespace bastion::nn {

// A table of kernels and the threads that run them. Runs one forward at a time.
struct Device {
  const kernels::Backend* backend = nullptr;
  kernels::ThreadPool* pool = nullptr;
};

// The type of the KV cache and the embedding table if the weight matrices have type `dtype`.
[[nodiscard]] constexpr DType StoredType(DType dtype) {
  return dtype == DType::kF32 ? dtype : DType::kBF16;
}

// The tokens that a row attends to (streaming_attention.h). Off without a window.
struct StreamingWindow {
  int sinks = 0;   // The first tokens of the text.
  int tokens = 0;  // The last tokens before the row, itself included. 0: all tokens of the text.

  [[nodiscard]] bool on() const { return tokens > 0; }
};

struct EngineOptions {
  DType dtype = DType::kBF16;  // Type of the weight matrices.
  Device device;
  int kv_tokens = 65536;           // Tokens that the KV cache holds, all sequences together.
  bool show_progress = false;      // Show a progress bar on stderr while weights load.
  StreamingWindow streaming = {};  // CPU only.
  // The following options apply to engines on a GPU only.
  int gpu = 0;                  // Index of the GPU.
  std::string gemm_table = {};  // Cache file for GEMM autotuning. Empty: tune at every start.
  // Limits of one forward. The engine allocates memory for them once.
  int max_rows = 512;
  int max_sequences = 64;
  // Bytes of GPU memory from which a drafter on the same GPU reads the target's features. 0: off.
  int64_t share_bytes = 0;
};

// Memory traffic and arithmetic of one forward on any device. The roofline model derives a lower
// bound on the forward's time from them.
struct ForwardCost {
  DType dtype = DType::kF32;          // Type of the matrices.
  int64_t weight_bytes = 0;           // Read once for all rows. Experts are not included.
  int64_t kv_bytes_per_token = 0;     // Read for each cached token, once for all rows.
  int64_t multiply_adds_per_row = 0;  // In the weight matrices only, without attention.
  int64_t expert_bytes = 0;           // All experts. A row reads `chosen_experts` of each layer's.
  int experts = 0;                    // Experts of a layer. 0: none.
  int chosen_experts = 0;

  void Add(const kernels::PackedMatrix& matrix) {
    dtype = matrix.dtype;
    weight_bytes += static_cast<int64_t>(matrix.bytes());
    multiply_adds_per_row += int64_t{matrix.rows} * matrix.columns;
  }
  // Adds all experts of a layer. REQUIRES: `experts` and `chosen_experts` are set.
  void AddExperts(int64_t bytes, int64_t multiply_adds) {
    expert_bytes += bytes;
    multiply_adds_per_row += multiply_adds * chosen_experts / experts;
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

#endif  // BASTION_ENGINE_MODEL_DEVICE_H_
