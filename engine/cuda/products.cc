#include "engine/cuda/products.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cuda/ops.h"

namespace bastion::nn {
namespace {

constexpr size_t kStagingBytes = size_t{32} << 20;

// The products of a GPU: by weights of a format, with inputs of a type.
struct Kernel {
  WeightFormat weights;
  DType input;
};
constexpr Kernel kKernels[] = {{WeightFormat::kBF16, DType::kBF16},
                               {WeightFormat::kF32, DType::kF32}};

// Null if there is none.
const Kernel* KernelOf(WeightFormat format) {
  const auto* const found =
      std::find_if(std::begin(kKernels), std::end(kKernels),
                   [&](const Kernel& kernel) { return kernel.weights == format; });
  return found == std::end(kKernels) ? nullptr : found;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Products>> Products::Create(std::string table,
                                                           kernels::cuda::Stream& stream) {
  ASSIGN_OR_RETURN(auto gemm, kernels::cuda::Gemm::Create());
  if (!table.empty()) {
    RETURN_IF_ERROR(gemm->Load(table));
  }
  return std::unique_ptr<Products>(new Products(std::move(table), stream, std::move(gemm)));
}

absl::Status Products::Support(const Formats& formats) {
  const Kernel* const kernel = KernelOf(formats.weights);
  if (kernel == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--weights ", Name(formats.weights), " works on CPUs only; use bf16 or fp32 on a GPU"));
  }
  if (kernel->input == formats.activations) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--weights ", Name(formats.weights), " works on a GPU only with --dtype ",
                   Name(kernel->input), ", not ", Name(formats.activations)));
}

// Matrices are row-major, without gaps.
size_t Products::MatrixBytes(WeightFormat format, int rows, int columns) {
  return Bytes(format, int64_t{rows} * columns);
}

absl::Status Products::Pack(absl::Span<const kernels::SourceMatrix> parts, const Matrix& to,
                            int index) {
  char* next = to.data(index);
  for (const kernels::SourceMatrix& part : parts) {
    const int64_t count = int64_t{part.rows} * to.columns;
    RETURN_IF_ERROR(Convert(part, {0, count}, KernelOf(to.format)->input, next));
    next += Bytes(to.format, count);
  }
  return absl::OkStatus();
}

absl::Status Products::Convert(const kernels::SourceMatrix& from, Device::Elements elements,
                               DType type, void* to) {
  if (staging_.bytes() == 0) {
    ASSIGN_OR_RETURN(
        staging_, kernels::cuda::Memory::OnHost(kStagingBytes, "the staging buffer for weights"));
  }
  const size_t element = Bytes(type, 1);
  const auto step = static_cast<int64_t>(kStagingBytes / element);
  for (int64_t first = 0; first < elements.count; first += step) {
    const int64_t part = std::min(step, elements.count - first);
    kernels::ConvertElements(from, elements.first + first, part, type, staging_.as<void>());
    stream_.Copy(static_cast<char*>(to) + first * element, staging_.as<void>(), part * element);
    RETURN_IF_ERROR(stream_.Synchronize());
  }
  return absl::OkStatus();
}

void Products::Multiply(const Matrix& matrix, const Rows& rows) {
  kernels::cuda::GemmArgs args;
  args.shape = {KernelOf(matrix.format)->input, rows.count, matrix.rows, matrix.columns,
                rows.accumulate};
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
