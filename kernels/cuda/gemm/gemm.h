// Matrix products on the device: y = x Wᵀ (+ y), the sum in fp32.
#ifndef BASTION_KERNELS_CUDA_GEMM_GEMM_H_
#define BASTION_KERNELS_CUDA_GEMM_GEMM_H_

#include <compare>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/types.h"

namespace bastion::kernels::cuda {

struct GemmShape {
  DType dtype = DType::kBF16;  // Of x and W.
  int rows = 0;                // R
  int columns = 0;             // N
  int depth = 0;               // K
  bool accumulate = false;

  [[nodiscard]] friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

// All three aligned to 16 bytes.
struct GemmArgs {
  GemmShape shape;
  const void* x = nullptr;       // [R, K] of dtype
  const void* weight = nullptr;  // [N, K] of dtype
  float* y = nullptr;            // [R, N]
};

// How each shape is best multiplied on this device is found out once, by timing what the library
// proposes, and kept; with a file, from start to start. Sums are in a fixed order. For one stream
// at a time: products share a workspace.
class Gemm {
 public:
  // REQUIRES: OpenDevice.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Gemm>> Create();
  virtual ~Gemm() = default;

  // Reads what an earlier Save left: OK where there is no such file, INVALID_ARGUMENT where it is
  // damaged, and then nothing of it is used. Lines of another device or library are for others:
  // Save, which replaces the file, puts them back.
  [[nodiscard]] virtual absl::Status Load(const std::string& path) = 0;
  [[nodiscard]] virtual absl::Status Save(const std::string& path) const = 0;

  // Finds the way for args.shape, if it is not known yet, by multiplying with each of `weights` in
  // turn, args.weight aside: those of several layers, so that none lies in the device's cache. y is
  // written to, and the stream's marks are forgotten. Not while recording. REQUIRES: x, y and
  // weights hold values that can be multiplied; there are weights.
  [[nodiscard]] virtual absl::Status Prepare(const GemmArgs& args,
                                             absl::Span<const void* const> weights,
                                             Stream& stream) = 0;
  // REQUIRES: Prepare or Load of that shape.
  virtual void Run(const GemmArgs& args, Stream& stream) = 0;
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_GEMM_GEMM_H_
