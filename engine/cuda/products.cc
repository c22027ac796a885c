#include "engine/cuda/products.h"

#include <utility>

#include "common/base/status.h"
#include "kernels/cuda/ops.h"

namespace bastion::nn {

absl::StatusOr<std::unique_ptr<Products>> Products::Create(std::string table,
                                                           kernels::cuda::Stream& stream) {
  ASSIGN_OR_RETURN(auto gemm, kernels::cuda::Gemm::Create());
  if (!table.empty()) {
    RETURN_IF_ERROR(gemm->Load(table));
  }
  return std::unique_ptr<Products>(new Products(std::move(table), stream, std::move(gemm)));
}

void Products::Multiply(const Matrix& matrix, const Rows& rows) {
  kernels::cuda::GemmArgs args;
  args.shape = {matrix.format, rows.count, matrix.rows, matrix.columns, rows.accumulate};
  args.x = rows.x;
  args.weight = matrix.data();
  args.y = rows.y;
  if (collecting_) {
    Noted& noted = noted_[args.shape];
    if (noted.weights.empty()) noted.args = args;
    noted.weights.push_back(args.weight);
    return;
  }
  gemm_->Run(args, stream_);
  if (const float* const bias = matrix.bias.as<float>(); bias != nullptr) {
    kernels::cuda::AddBias({rows.y, bias, rows.count, matrix.rows}, stream_);
  }
}

absl::Status Products::Tune() {
  collecting_ = false;
  for (const auto& [shape, noted] : std::exchange(noted_, {})) {
    RETURN_IF_ERROR(gemm_->Prepare(noted.args, noted.weights, stream_));
  }
  return table_.empty() ? absl::OkStatus() : gemm_->Save(table_);
}

}  // namespace bastion::nn
