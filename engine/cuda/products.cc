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

int OutputsOf(const Matrix& matrix, const Products::Rows& rows) {
  return rows.outputs > 0 ? rows.outputs : matrix.rows;
}

// The product of `rows` rows with a matrix, without its result.
kernels::cuda::ProductArgs ArgsOf(const Matrix& matrix, const void* x, int rows) {
  kernels::cuda::ProductArgs args;
  args.x = static_cast<const uint16_t*>(x);
  args.weight = static_cast<const uint16_t*>(static_cast<const void*>(matrix.data()));
  args.rows = rows;
  args.columns = matrix.rows;
  args.depth = matrix.columns;
  return args;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Products>> Products::Create(const GpuOptions& options,
                                                           const kernels::cuda::DeviceInfo& device,
                                                           kernels::cuda::Stream& stream) {
  ASSIGN_OR_RETURN(auto gemm, kernels::cuda::Gemm::Create());
  if (!options.gemm_table.empty()) {
    RETURN_IF_ERROR(gemm->Load(options.gemm_table));
  }
  auto products = std::unique_ptr<Products>(new Products(options, device, stream, std::move(gemm)));
  ASSIGN_OR_RETURN(products->sums_,
                   kernels::cuda::Memory::OnDevice(kernels::cuda::MaxProductSums() * sizeof(float),
                                                   "the sums of a product"));
  return products;
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

bool Products::AreExact(const Formats& formats) const {
  const Kernel* const kernel = KernelOf(formats.weights);
  return !options_.library_products && kernel != nullptr && kernel->input == DType::kBF16;
}

bool Products::IsExact(const Matrix& matrix) const {
  return !options_.library_products && KernelOf(matrix.format)->input == DType::kBF16 &&
         kernels::cuda::ProductSupports(matrix.columns);
}

kernels::cuda::Sums Products::Run(kernels::cuda::ProductArgs args) {
  if (collecting_) {
    noted_exact_.push_back(args);
    return {};
  }
  const kernels::cuda::ProductPlan plan = kernels::cuda::PlanProduct(args, device_);
  if (plan.split) {
    args.y = sums_.as<float>();
    args.accumulate = false;
  }
  return kernels::cuda::Product(args, plan, stream_);
}

kernels::cuda::Sums Products::Start(const Matrix& matrix, const Rows& rows) {
  if (!IsExact(matrix)) {
    RunLibrary(matrix, rows);
    return {};
  }
  kernels::cuda::ProductArgs args = ArgsOf(matrix, rows.x, rows.count);
  args.outputs = rows.outputs;
  args.y = rows.y;
  args.accumulate = rows.accumulate;
  return Run(args);
}

bool Products::MultiplyGated(const Matrix& matrix, const void* x, void* y, int rows) {
  if (!IsExact(matrix)) return false;
  kernels::cuda::ProductArgs args = ArgsOf(matrix, x, rows);
  args.activation = static_cast<uint16_t*>(y);
  static_cast<void>(Run(args));
  return true;
}

void Products::RunLibrary(const Matrix& matrix, const Rows& rows) {
  kernels::cuda::GemmArgs args;
  args.shape = {KernelOf(matrix.format)->input, rows.count, OutputsOf(matrix, rows), matrix.columns,
                rows.accumulate};
  args.x = rows.x;
  args.weight = matrix.data();
  args.y = rows.y;
  if (!collecting_) {
    gemm_->Run(args, stream_);
    return;
  }
  Noted& noted = noted_[args.shape];
  if (noted.weights.empty()) noted.args = args;
  noted.weights.push_back(args.weight);
}

void Products::Multiply(const Matrix& matrix, const Rows& rows) {
  const kernels::cuda::Sums sums = Start(matrix, rows);
  if (collecting_) return;
  if (sums.ranges > 0) {
    kernels::cuda::AddSums({sums, rows.y, sums.stride, rows.accumulate}, stream_);
  }
  if (const float* const bias = matrix.bias.as<float>(); bias != nullptr) {
    kernels::cuda::AddBias({rows.y, bias, rows.count, OutputsOf(matrix, rows)}, stream_);
  }
}

absl::Status Products::Tune() {
  collecting_ = false;
  for (const auto& [shape, noted] : std::exchange(noted_, {})) {
    RETURN_IF_ERROR(gemm_->Prepare(noted.args, noted.weights, stream_));
  }
  // CUDA loads the code of a kernel at its first launch, which must not be recorded. So each kernel
  // runs once.
  for (const auto& args : std::exchange(noted_exact_, {})) {
    const kernels::cuda::ProductPlan plan = kernels::cuda::PlanProduct(args, device_);
    const int adds = plan.ranges == 1 ? 0 : plan.split ? 1 : 2;
    if (!loaded_.insert({plan.warpgroups, plan.tile_columns, plan.tile_tokens, adds}).second) {
      continue;
    }
    const kernels::cuda::Sums sums = Run(args);
    if (sums.ranges > 0) kernels::cuda::AddSums({sums, args.y, sums.stride}, stream_);
  }
  return options_.gemm_table.empty() ? absl::OkStatus() : gemm_->Save(options_.gemm_table);
}

}  // namespace bastion::nn
