// Products: the matrices of a GPU, in the layout of their formats, and the products with them,
// tuned before they are recorded. Not thread-safe.
#ifndef BASTION_ENGINE_CUDA_PRODUCTS_H_
#define BASTION_ENGINE_CUDA_PRODUCTS_H_

#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cuda/cuda_device.h"
#include "engine/model/device.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/product/product.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::nn {

class Products {
 public:
  // Reads the autotuning results, if there is a file. `stream` must outlive this object. Errors:
  // those of Gemm::Load.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Products>> Create(
      const GpuOptions& options, const kernels::cuda::DeviceInfo& device,
      kernels::cuda::Stream& stream);

  // INVALID_ARGUMENT unless there are products of weights and activations in these formats.
  [[nodiscard]] static absl::Status Support(const Formats& formats);
  // Whether products in these formats are the project's own, for all matrices that it supports.
  [[nodiscard]] bool AreExact(const Formats& formats) const;
  // The functions of Device. INVALID_ARGUMENT for int8 with columns that are no multiple of 8.
  [[nodiscard]] static size_t MatrixBytes(WeightFormat format, int rows, int columns);
  [[nodiscard]] absl::Status Pack(absl::Span<const kernels::SourceMatrix> parts, const Matrix& to,
                                  int index);
  [[nodiscard]] absl::Status Convert(const kernels::SourceMatrix& from, Device::Elements elements,
                                     DType type, void* to);

  // y [R, N] = x Wᵀ + bias, or y += x Wᵀ + bias, with x of the type of the activations. While
  // collecting, only notes the product.
  struct Rows {
    const void* x = nullptr;  // [R, K]
    float* y = nullptr;       // [R, N]
    int count = 0;            // R
    bool accumulate = false;
    int outputs = 0;  // Only the first outputs of a row. 0: all N.
  };
  void Multiply(const Matrix& matrix, const Rows& rows);
  // The same, but leaves the last addition to the caller if it returns sums: y is unchanged, and y
  // (+)= these sums, which are valid until the next product. Not for matrices with a bias.
  [[nodiscard]] kernels::cuda::Sums Start(const Matrix& matrix, const Rows& rows);
  // y [R, N / 2] = silu(gate) · up, in the type of the activations. W is [gate; up]. False if this
  // object's products do not include the activation; then it does nothing.
  [[nodiscard]] bool MultiplyGated(const Matrix& matrix, const void* x, void* y, int rows);

  // From now on, the functions above note products. Tune tunes those of the library, each over the
  // weights of all layers, runs the others once, and ends that. It writes new results to the file.
  void Collect() { collecting_ = true; }
  [[nodiscard]] absl::Status Tune();

 private:
  struct Noted {
    kernels::cuda::GemmArgs args;
    std::vector<const void*> weights;
  };

  Products(const GpuOptions& options, const kernels::cuda::DeviceInfo& device,
           kernels::cuda::Stream& stream, std::unique_ptr<kernels::cuda::Gemm> gemm)
      : options_(options), device_(device), stream_(stream), gemm_(std::move(gemm)) {}

  [[nodiscard]] absl::Status AllocateStaging();
  [[nodiscard]] absl::Status PackInt8(absl::Span<const kernels::SourceMatrix> parts,
                                      const Matrix& to, int index);
  // Whether the product is the project's own.
  [[nodiscard]] bool IsExact(const Matrix& matrix) const;
  // While collecting, only notes the product.
  [[nodiscard]] kernels::cuda::Sums Run(kernels::cuda::ProductArgs args);
  void RunLibrary(const Matrix& matrix, const Rows& rows);

  const GpuOptions options_;
  const kernels::cuda::DeviceInfo device_;
  kernels::cuda::Stream& stream_;
  std::unique_ptr<kernels::cuda::Gemm> gemm_;
  kernels::cuda::Memory sums_;     // A split product's.
  kernels::cuda::Memory staging_;  // For weights.
  bool collecting_ = false;
  std::map<kernels::cuda::GemmShape, Noted> noted_;
  std::vector<kernels::cuda::ProductArgs> noted_exact_;
  // A kernel of exact products: for int8, with warpgroups, columns and tokens of a tile, and who
  // adds the ranges.
  using Kernel = std::tuple<bool, bool, int, int, int>;
  std::set<Kernel> loaded_;  // Those that have run.
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_CUDA_PRODUCTS_H_
