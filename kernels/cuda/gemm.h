// Matrix products on the device: y = x Wᵀ (+ y), the sum in fp32.
#ifndef BASTION_KERNELS_CUDA_GEMM_H_
#define BASTION_KERNELS_CUDA_GEMM_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/runtime.h"
#include "kernels/types.h"

namespace bastion::kernels::cuda {

struct GemmShape {
  DType dtype = DType::kBF16;  // Of x and W.
  int rows = 0;                // R
  int columns = 0;             // N
  int depth = 0;               // K
  bool accumulate = false;

  [[nodiscard]] friend bool operator==(const GemmShape&, const GemmShape&) = default;
};

struct GemmArgs {
  GemmShape shape;
  const void* x = nullptr;       // [R, K] of dtype
  const void* weight = nullptr;  // [N, K] of dtype
  float* y = nullptr;            // [R, N]
};

// How each shape is best multiplied on this device is found out once, by timing what the library
// proposes, and kept; with a file, from start to start.
class Gemm {
 public:
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Gemm>> Create();
  virtual ~Gemm() = default;

  // Reads what an earlier Save left: OK where there is no such file; lines of another device or
  // library are passed over. Save replaces the file.
  [[nodiscard]] virtual absl::Status Load(const std::string& path) = 0;
  [[nodiscard]] virtual absl::Status Save(const std::string& path) const = 0;

  // Finds the way for args.shape, if it is not known yet, by running the product with `weights` in
  // turn, as a forward does, so that they come from memory. y is written to. Not while recording.
  [[nodiscard]] virtual absl::Status Prepare(const GemmArgs& args,
                                             absl::Span<const void* const> weights,
                                             Stream& stream) = 0;
  // REQUIRES: Prepare of that shape.
  virtual void Run(const GemmArgs& args, Stream& stream) = 0;
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_GEMM_H_
