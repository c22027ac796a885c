// Weights in GPU memory: row-major matrices in the engine's type, norms as floats.
#ifndef BASTION_COMMON_CUDA_DEVICE_WEIGHTS_H_
#define BASTION_COMMON_CUDA_DEVICE_WEIGHTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/progress.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"
#include "common/nn/device.h"
#include "common/stages/stage_data.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::cuda {

using kernels::cuda::Memory;
using kernels::cuda::Stream;

// W [N, K], row-major.
struct DeviceMatrix {
  Memory storage;
  DType dtype = DType::kBF16;
  int rows = 0;     // N
  int columns = 0;  // K

  [[nodiscard]] const void* data() const { return storage.as<void>(); }
};

// Copies tensors of one checkpoint to the device. Not thread-safe.
class DeviceLoader {
 public:
  // `bar` may be null. It shows how many megabytes of the checkpoint are loaded.
  DeviceLoader(std::shared_ptr<const hub::Checkpoint> checkpoint, DType dtype, Stream& stream,
               ProgressBar* bar);

  // The named matrices [rows_i, columns], stacked vertically.
  [[nodiscard]] absl::StatusOr<DeviceMatrix> Stacked(const std::vector<std::string>& names,
                                                     const std::vector<int>& rows, int columns);
  // A vector of floats [size].
  [[nodiscard]] absl::StatusOr<Memory> Vector(const std::string& name, int size);

  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] Stream& stream() { return stream_; }

 private:
  // Converts `view` to `dtype`, copies it to `to` and waits for the copy.
  [[nodiscard]] absl::Status Put(const hub::TensorView& view, DType dtype, char* to);

  std::shared_ptr<const hub::Checkpoint> checkpoint_;
  DType dtype_;
  Stream& stream_;
  ProgressBar* bar_;
  int64_t done_ = 0;
  int64_t total_ = 0;
  Memory staging_;
};

// The weights of one decoder block.
struct DeviceBlock {
  Memory attention_norm, mlp_norm;  // [C]
  Memory query_norm, key_norm;      // [D]
  DeviceMatrix kvq;                 // [(2G + H) D, C]: keys, values, queries
  DeviceMatrix output;              // [C, H D]
  DeviceMatrix gate_up;             // [2 I, C]: gate, up
  DeviceMatrix down;                // [C, I]
};

// Loads the block whose tensors are named `prefix` + the names of Qwen3.
[[nodiscard]] absl::StatusOr<DeviceBlock> LoadDeviceBlock(DeviceLoader& loader,
                                                          const std::string& prefix,
                                                          const ModelDims& dims);

// Embedding table and LM head. They are one matrix if the checkpoint ties them.
struct DeviceVocabulary {
  DeviceMatrix table;     // [V, C]
  DeviceMatrix own_head;  // [V, C]; empty if tied.

  [[nodiscard]] const DeviceMatrix& head() const { return own_head.rows > 0 ? own_head : table; }
};

[[nodiscard]] absl::StatusOr<DeviceVocabulary> LoadDeviceVocabulary(DeviceLoader& loader,
                                                                    const hub::ModelConfig& config);

}  // namespace bastion::cuda

#endif  // BASTION_COMMON_CUDA_DEVICE_WEIGHTS_H_
