// Matrix products on the GPU: y = x Wᵀ, or y += x Wᵀ, summed in fp32.
#ifndef BASTION_KERNELS_CUDA_GEMM_GEMM_H_
#define BASTION_KERNELS_CUDA_GEMM_GEMM_H_

#include <compare>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cuda/runtime/runtime.h"
#include "kernels/ops/types.h"

namespace bastion::kernels::cuda {

struct GemmShape {
  DType dtype = DType::kBF16;  // The type of x and W.
  int rows = 0;                // R
  int columns = 0;             // N
  int depth = 0;               // K
  bool accumulate = false;

  [[nodiscard]] friend auto operator<=>(const GemmShape&, const GemmShape&) = default;
};

// REQUIRES: x, weight and y are aligned to 16 bytes.
struct GemmArgs {
  GemmShape shape;
  const void* x = nullptr;       // [R, K] of dtype
  const void* weight = nullptr;  // [N, K] of dtype
  float* y = nullptr;            // [R, N]
};

// Multiplies matrices with a tuned algorithm per shape: Prepare times the algorithms that the
// library proposes and keeps the fastest. Save and Load keep the results in a file, so that a
// restarted process does not tune again. Sums have a fixed order. Use it with one stream at a time,
// because all products share a workspace.
class Gemm {
 public:
  // REQUIRES: OpenDevice succeeded.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Gemm>> Create();
  virtual ~Gemm() = default;

  // Reads a file that Save wrote. OK if the file does not exist. INVALID_ARGUMENT if it is damaged;
  // then no entry is used. Entries for other devices or library versions are kept but not used;
  // Save writes them back.
  [[nodiscard]] virtual absl::Status Load(const std::string& path) = 0;
  [[nodiscard]] virtual absl::Status Save(const std::string& path) const = 0;

  // Finds the fastest algorithm for args.shape, unless it is already known. The timed products
  // rotate through `weights` and ignore args.weight; pass the weights of several layers, so that
  // none of them stays in the GPU's cache. Overwrites y and calls ForgetMarks on the stream. Must
  // not be called while recording. REQUIRES: `weights` is not empty, and x, y and the weights
  // contain no NaN or infinity.
  [[nodiscard]] virtual absl::Status Prepare(const GemmArgs& args,
                                             absl::Span<const void* const> weights,
                                             Stream& stream) = 0;
  // REQUIRES: Prepare or Load succeeded for args.shape.
  virtual void Run(const GemmArgs& args, Stream& stream) = 0;
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_KERNELS_CUDA_GEMM_GEMM_H_
