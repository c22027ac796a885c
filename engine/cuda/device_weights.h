// Weights in GPU memory: row-major matrices in the engine's type, norms as floats.
#ifndef BASTION_ENGINE_CUDA_DEVICE_WEIGHTS_H_
#define BASTION_ENGINE_CUDA_DEVICE_WEIGHTS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/progress.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"
#include "engine/model/checkpoint_tensors.h"
#include "engine/model/device.h"
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
  Memory bias;      // [N] floats, or no memory

  [[nodiscard]] const void* data() const { return storage.as<void>(); }
  [[nodiscard]] bool has_bias() const { return bias.bytes() > 0; }
};

// The weights of a norm.
struct DeviceNorm {
  Memory weight;  // [C]
  Memory bias;    // [C]; layer norms only.
};

// Copies tensors of one checkpoint to the device. Not thread-safe.
class DeviceLoader {
 public:
  using Norm = DeviceNorm;
  using Matrix = DeviceMatrix;
  using Matrices = DeviceMatrix;  // All of them, one after the other.

  // `bar` may be null. It shows how many megabytes of the checkpoint are loaded.
  DeviceLoader(std::shared_ptr<const hub::Checkpoint> checkpoint, DType dtype, Stream& stream,
               ProgressBar* bar);

  // The named matrices [rows_i, columns], stacked vertically.
  [[nodiscard]] absl::StatusOr<DeviceMatrix> Stacked(const std::vector<std::string>& names,
                                                     const std::vector<int>& rows, int columns);
  // The same for ranges of rows.
  [[nodiscard]] absl::StatusOr<DeviceMatrix> Stacked(const std::vector<nn::TensorRows>& parts,
                                                     int columns);
  [[nodiscard]] absl::StatusOr<DeviceMatrix> StackedPrecise(
      const std::vector<nn::TensorRows>& parts, int columns) {
    return Stacked(parts, columns);
  }
  // All elements of `all`, stacked vertically.
  [[nodiscard]] absl::StatusOr<DeviceMatrix> EachStacked(
      const std::vector<std::vector<nn::TensorRows>>& all, int columns);
  // A vector of floats [size].
  [[nodiscard]] absl::StatusOr<Memory> Vector(const std::string& name, int size);
  // The named elements of vectors, one part after the other, as floats.
  [[nodiscard]] absl::StatusOr<Memory> StackedVector(const std::vector<nn::TensorRows>& parts);

  [[nodiscard]] bool Has(const std::string& name) const { return checkpoint_->Has(name); }
  [[nodiscard]] DType dtype() const { return dtype_; }
  [[nodiscard]] Stream& stream() { return stream_; }

 private:
  // Converts `count` elements of `view`, from element `first` on, to `dtype`, copies them to `to`
  // and waits for the copy.
  struct Elements {
    size_t first = 0;
    size_t count = 0;
  };
  [[nodiscard]] absl::Status Put(const hub::TensorView& view, Elements elements, DType dtype,
                                 char* to);

  std::shared_ptr<const hub::Checkpoint> checkpoint_;
  DType dtype_;
  Stream& stream_;
  ProgressBar* bar_;
  int64_t done_ = 0;
  Memory staging_;
};

// The weights of one decoder block, with an MLP or with experts.
struct DeviceBlock {
  DeviceNorm attention_norm, mlp_norm;
  Memory query_norm, key_norm;  // [D], or no memory
  DeviceMatrix kvq;             // [(2G + H) D, C]: keys, values, queries
  DeviceMatrix output;          // [C, H D]
  DeviceMatrix gate_up;         // [2 I, C]: gate, up; or [I, C] for an MLP without a gate
  DeviceMatrix down;            // [C, I]
  DeviceMatrix router;          // [E, C]
  DeviceMatrix expert_gate_up, expert_down;  // [E, 2 I, C], [E, C, I], I of an expert
};

[[nodiscard]] absl::StatusOr<DeviceBlock> LoadDeviceBlock(DeviceLoader& loader,
                                                          const hub::ModelConfig& config,
                                                          int layer);

// Embedding table and LM head. They are one matrix if the checkpoint ties them.
struct DeviceVocabulary {
  DeviceMatrix table;     // [V, C]
  DeviceMatrix own_head;  // [V, C]; empty if tied.

  [[nodiscard]] const DeviceMatrix& head() const { return own_head.rows > 0 ? own_head : table; }
};

[[nodiscard]] absl::StatusOr<DeviceVocabulary> LoadDeviceVocabulary(DeviceLoader& loader,
                                                                    const hub::ModelConfig& config);

}  // namespace bastion::cuda

#endif  // BASTION_ENGINE_CUDA_DEVICE_WEIGHTS_H_
