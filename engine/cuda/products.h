// Products: the matrices of a GPU, in the layout of their formats, and the products with them,
// tuned before they are recorded. Not thread-safe.
#ifndef BASTION_ENGINE_CUDA_PRODUCTS_H_
#define BASTION_ENGINE_CUDA_PRODUCTS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/device.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::nn {

class Products {
 public:
  // Reads the autotuning results in the file `table`, if it exists. Empty: no file. `stream` must
  // outlive this object. Errors: those of Gemm::Load.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Products>> Create(
      std::string table, kernels::cuda::Stream& stream);

  // INVALID_ARGUMENT unless there are products of weights and activations in these formats.
  [[nodiscard]] static absl::Status Support(const Formats& formats);
  // The functions of Device.
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
  };
  void Multiply(const Matrix& matrix, const Rows& rows);

  // From now on, Multiply notes products. Tune tunes those that were noted, each over the weights
  // of all layers, and ends that. It writes new results to the file.
  void Collect() { collecting_ = true; }
  [[nodiscard]] absl::Status Tune();

 private:
  struct Noted {
    kernels::cuda::GemmArgs args;
    std::vector<const void*> weights;
  };

  Products(std::string table, kernels::cuda::Stream& stream,
           std::unique_ptr<kernels::cuda::Gemm> gemm)
      : table_(std::move(table)), stream_(stream), gemm_(std::move(gemm)) {}

  const std::string table_;
  kernels::cuda::Stream& stream_;
  std::unique_ptr<kernels::cuda::Gemm> gemm_;
  kernels::cuda::Memory staging_;  // For weights.
  bool collecting_ = false;
  std::map<kernels::cuda::GemmShape, Noted> noted_;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_CUDA_PRODUCTS_H_
