#include "engine/cuda/products.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/product/int8_rows.h"
#include "kernels/cuda/product/pack_int8.h"

namespace bastion::nn {
namespace {

constexpr size_t kStagingBytes = size_t{32} << 20;

// The products of a GPU: by weights of a format, with inputs of a type.
struct Inputs {
  WeightFormat weights;
  DType input;
};
constexpr Inputs kInputs[] = {{WeightFormat::kBF16, DType::kBF16},
                              {WeightFormat::kInt8, DType::kBF16},
                              {WeightFormat::kF32, DType::kF32}};

// Null if there is none.
const Inputs* InputsOf(WeightFormat format) {
  const auto* const found =
      std::find_if(std::begin(kInputs), std::end(kInputs),
                   [&](const Inputs& inputs) { return inputs.weights == format; });
  return found == std::end(kInputs) ? nullptr : found;
}

int OutputsOf(const Matrix& matrix, const Products::Rows& rows) {
  return rows.outputs > 0 ? rows.outputs : matrix.rows;
}

// The product of `rows` rows with a matrix, without its result.
kernels::cuda::ProductArgs ArgsOf(const Matrix& matrix, const void* x, int rows) {
  kernels::cuda::ProductArgs args;
  args.x = static_cast<const uint16_t*>(x);
  args.weight = matrix.data();
  if (matrix.format == WeightFormat::kInt8) {
    args.scales = kernels::cuda::Int8Scales(matrix.data(), matrix.rows, matrix.columns);
  }
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
  const Inputs* const inputs = InputsOf(formats.weights);
  if (inputs == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("--weights ", Name(formats.weights),
                     " works on CPUs only; use bf16, int8 or fp32 on a GPU"));
  }
  if (inputs->input == formats.activations) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("--weights ", Name(formats.weights), " works on a GPU only with --dtype ",
                   Name(inputs->input), ", not ", Name(formats.activations)));
}

// Matrices of floats are row-major, without gaps.
size_t Products::MatrixBytes(WeightFormat format, int rows, int columns) {
  if (format == WeightFormat::kInt8) return kernels::cuda::Int8MatrixBytes(rows, columns);
  return Bytes(format, int64_t{rows} * columns);
}

absl::Status Products::Pack(absl::Span<const kernels::SourceMatrix> parts, const Matrix& to,
                            int index) {
  if (to.format == WeightFormat::kInt8) return PackInt8(parts, to, index);
  char* next = to.data(index);
  for (const kernels::SourceMatrix& part : parts) {
    const int64_t count = int64_t{part.rows} * to.columns;
    RETURN_IF_ERROR(Convert(part, {0, count}, InputsOf(to.format)->input, next));
    next += Bytes(to.format, count);
  }
  return absl::OkStatus();
}

absl::Status Products::PackInt8(absl::Span<const kernels::SourceMatrix> parts, const Matrix& to,
                                int index) {
  if (!kernels::cuda::ProductSupports(to.columns)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--weights int8 works on a GPU only if all matrices have a multiple of 8 columns, and one "
        "has ",
        to.columns, "; use --weights bf16"));
  }
  RETURN_IF_ERROR(AllocateStaging());
  const size_t pitch = kernels::cuda::Int8Pitch(to.columns);
  const auto step = static_cast<int>(kStagingBytes / (pitch + sizeof(float)));
  auto* const rounded = staging_.as<uint8_t>();
  auto* const scales = static_cast<float*>(static_cast<void*>(rounded + step * pitch));
  char* const all_scales = to.data(index) + kernels::cuda::Int8ScalesOffset(to.rows, to.columns);
  int packed = 0;
  for (const kernels::SourceMatrix& part : parts) {
    for (int first = 0; first < part.rows; first += step) {
      const int count = std::min(step, part.rows - first);
      kernels::cuda::PackInt8({part, first, count, to.columns}, rounded, scales);
      stream_.Copy(to.data(index) + packed * pitch, rounded, count * pitch);
      stream_.Copy(all_scales + packed * sizeof(float), scales, count * sizeof(float));
      RETURN_IF_ERROR(stream_.Synchronize());
      packed += count;
    }
  }
  return absl::OkStatus();
}

absl::Status Products::AllocateStaging() {
  if (staging_.bytes() != 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(staging_,
                   kernels::cuda::Memory::OnHost(kStagingBytes, "the staging buffer for weights"));
  return absl::OkStatus();
}

absl::Status Products::Convert(const kernels::SourceMatrix& from, Device::Elements elements,
                               DType type, void* to) {
  RETURN_IF_ERROR(AllocateStaging());
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
  const Inputs* const inputs = InputsOf(formats.weights);
  return !options_.library_products && inputs != nullptr && inputs->input == DType::kBF16;
}

bool Products::IsExact(const Matrix& matrix) const {
  if (matrix.format == WeightFormat::kInt8) return true;  // The library has no such products.
  return !options_.library_products && InputsOf(matrix.format)->input == DType::kBF16 &&
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
  args.shape = {InputsOf(matrix.format)->input, rows.count, OutputsOf(matrix, rows), matrix.columns,
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
    const Kernel kernel = {args.scales != nullptr, plan.warpgroups, plan.tile_columns,
                           plan.tile_tokens, adds};
    if (!loaded_.insert(kernel).second) continue;
    const kernels::cuda::Sums sums = Run(args);
    if (sums.ranges > 0) kernels::cuda::AddSums({sums, args.y, sums.stride}, stream_);
  }
  return options_.gemm_table.empty() ? absl::OkStatus() : gemm_->Save(options_.gemm_table);
}

}  // namespace bastion::nn
