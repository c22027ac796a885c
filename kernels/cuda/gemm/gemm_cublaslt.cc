// Gemm by cuBLASLt. The library thinks in columns: for it, our row-major y [R, N] is an N x R
// matrix, W [N, K] one of K x N to be transposed and x [R, K] one of K x R, and y = W' x.
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <bit>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/gemm/gemm.h"
#include "kernels/cuda/gemm/gemm_table.h"

namespace bastion::kernels::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{64} << 20;  // NVIDIA advises 32 MiB on Hopper.
constexpr uint32_t kAlignment = 16;
constexpr int kProposals = 16;
constexpr int kFinalists = 3;
constexpr int kFewReplays = 3, kManyReplays = 15;
constexpr size_t kLeastProducts = 4, kMostProducts = 64;  // Of one replay.
// How much faster than what the library likes better a proposal has to be: noise is not to choose.
constexpr double kFaster = 0.98;

absl::Status Told(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, " failed: ", cublasLtGetStatusName(status)));
}

// What the library is told of a shape, in structs of its own that need no allocation.
struct Product {
  GemmShape shape;
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t weight, x, y;
};

absl::StatusOr<Product> ProductOf(const GemmShape& shape) {
  if (shape.dtype == DType::kInt8 || shape.rows <= 0 || shape.columns <= 0 || shape.depth <= 0) {
    return absl::InvalidArgumentError(absl::StrCat("no matrix product on the GPU of ",
                                                   Name(shape.dtype), " [", shape.rows, ", ",
                                                   shape.columns, ", ", shape.depth, "]"));
  }
  const cudaDataType_t type = shape.dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
  const auto rows = static_cast<uint64_t>(shape.rows);
  const auto columns = static_cast<uint64_t>(shape.columns);
  const auto depth = static_cast<uint64_t>(shape.depth);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  constexpr char kWhat[] = "describing a matrix product";
  Product product;
  product.shape = shape;
  // fp32 is not rounded to TF32 for it.
  RETURN_IF_ERROR(
      Told(cublasLtMatmulDescInit(&product.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), kWhat));
  RETURN_IF_ERROR(
      Told(cublasLtMatmulDescSetAttribute(&product.operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                          &transposed, sizeof(transposed)),
           kWhat));
  RETURN_IF_ERROR(
      Told(cublasLtMatrixLayoutInit(&product.weight, type, depth, columns, shape.depth), kWhat));
  RETURN_IF_ERROR(
      Told(cublasLtMatrixLayoutInit(&product.x, type, depth, rows, shape.depth), kWhat));
  RETURN_IF_ERROR(
      Told(cublasLtMatrixLayoutInit(&product.y, CUDA_R_32F, columns, rows, shape.columns), kWhat));
  return product;
}

template <typename T>
absl::Status Prefer(cublasLtMatmulPreferenceOpaque_t& preference,
                    cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  return Told(cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
              "a preference for matrix products");
}

// Products cut along K are summed up in a step of their own, always in the same order.
absl::StatusOr<cublasLtMatmulPreferenceOpaque_t> Preference() {
  cublasLtMatmulPreferenceOpaque_t preference;
  RETURN_IF_ERROR(
      Told(cublasLtMatmulPreferenceInit(&preference), "the preferences for matrix products"));
  RETURN_IF_ERROR(
      Prefer<uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceBytes));
  RETURN_IF_ERROR(Prefer<uint32_t>(
      preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    RETURN_IF_ERROR(Prefer<uint32_t>(preference, operand, kAlignment));
  }
  return preference;
}

struct Way {
  Product product;
  cublasLtMatmulAlgo_t algorithm;
  double seconds = 0;
};

// What the ways for one shape are compared by.
struct Trial {
  const GemmArgs& args;
  absl::Span<const void* const> weights;
  Stream& stream;
  size_t products = 0;  // Of one replay
};

class CublasLtGemm final : public Gemm {
 public:
  CublasLtGemm(cublasLtHandle_t handle, Memory workspace, const cudaDeviceProp& device)
      : handle_(handle),
        workspace_(std::move(workspace)),
        device_(device.name),
        cache_bytes_(static_cast<size_t>(device.l2CacheSize)),
        library_(cublasLtGetVersion()) {}
  CublasLtGemm(const CublasLtGemm&) = delete;
  CublasLtGemm& operator=(const CublasLtGemm&) = delete;
  ~CublasLtGemm() override { static_cast<void>(cublasLtDestroy(handle_)); }

  absl::Status Load(const std::string& path) override;
  absl::Status Save(const std::string& path) const override;
  absl::Status Prepare(const GemmArgs& args, absl::Span<const void* const> weights,
                       Stream& stream) override;
  void Run(const GemmArgs& args, Stream& stream) override {
    const auto way = ways_.find(args.shape);
    CHECK(way != ways_.end()) << "a product of a shape that was not prepared: " << args.shape.rows
                              << " x " << args.shape.columns << " x " << args.shape.depth;
    Note(Multiply(way->second, args, stream), stream);
  }

 private:
  [[nodiscard]] absl::StatusOr<std::vector<Way>> Proposals(const GemmShape& shape);
  [[nodiscard]] cublasStatus_t Multiply(Way& way, const GemmArgs& args, Stream& stream);
  // Seconds of one product; infinity where the library does not do what it proposed.
  [[nodiscard]] absl::StatusOr<double> Time(Way& way, const Trial& trial, int replays);
  static void Note(cublasStatus_t status, Stream& stream) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const std::string what = absl::StrCat("a matrix product (", cublasLtGetStatusName(status), ")");
    stream.Note(cudaErrorUnknown, what.c_str());
  }

  const cublasLtHandle_t handle_;
  const Memory workspace_;
  const std::string device_;
  const size_t cache_bytes_;
  const uint64_t library_;
  std::map<GemmShape, Way> ways_;
  std::vector<GemmEntry> others_;  // Of other devices and libraries.
};

absl::Status CublasLtGemm::Load(const std::string& path) {
  ASSIGN_OR_RETURN(std::vector<GemmEntry> entries, ReadGemmTable(path));
  others_.clear();
  for (GemmEntry& entry : entries) {
    if (entry.device != device_ || entry.library != library_) {
      others_.push_back(std::move(entry));
      continue;
    }
    absl::StatusOr<Product> product = ProductOf(entry.shape);
    if (!product.ok()) continue;
    Way way = {*product, std::bit_cast<cublasLtMatmulAlgo_t>(entry.algorithm),
               entry.microseconds * 1e-6};
    cublasLtMatmulHeuristicResult_t result = {};
    const cublasStatus_t checked = cublasLtMatmulAlgoCheck(
        handle_, &way.product.operation, &way.product.weight, &way.product.x, &way.product.y,
        &way.product.y, &way.algorithm, &result);
    // What cannot be used is found anew.
    if (checked != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kWorkspaceBytes) continue;
    ways_.insert({entry.shape, way});
  }
  return absl::OkStatus();
}

absl::Status CublasLtGemm::Save(const std::string& path) const {
  std::vector<GemmEntry> entries = others_;
  for (const auto& [shape, way] : ways_) {
    const auto words = std::bit_cast<std::array<uint64_t, 8>>(way.algorithm);
    entries.push_back({device_, library_, shape, words, way.seconds * 1e6});
  }
  return WriteGemmTable(path, entries);
}

absl::StatusOr<std::vector<Way>> CublasLtGemm::Proposals(const GemmShape& shape) {
  ASSIGN_OR_RETURN(Product product, ProductOf(shape));
  ASSIGN_OR_RETURN(cublasLtMatmulPreferenceOpaque_t preference, Preference());
  cublasLtMatmulHeuristicResult_t results[kProposals] = {};
  int count = 0;
  RETURN_IF_ERROR(Told(cublasLtMatmulAlgoGetHeuristic(handle_, &product.operation, &product.weight,
                                                      &product.x, &product.y, &product.y,
                                                      &preference, kProposals, results, &count),
                       "asking for ways to multiply matrices"));
  std::vector<Way> ways;
  for (int i = 0; i < count; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    if (results[i].workspaceSize > kWorkspaceBytes) continue;
    ways.push_back({product, results[i].algo});
  }
  return ways;
}

cublasStatus_t CublasLtGemm::Multiply(Way& way, const GemmArgs& args, Stream& stream) {
  const auto aligned = [](const void* at) {
    return at != nullptr && reinterpret_cast<uintptr_t>(at) % kAlignment == 0;
  };
  CHECK(aligned(args.x) && aligned(args.weight) && aligned(args.y)) << "a product's operands";
  const float one = 1, beta = args.shape.accumulate ? 1 : 0;
  Product& product = way.product;
  return cublasLtMatmul(handle_, &product.operation, &one, args.weight, &product.weight, args.x,
                        &product.x, &beta, args.y, &product.y, args.y, &product.y, &way.algorithm,
                        workspace_.as<void>(), kWorkspaceBytes,
                        static_cast<cudaStream_t>(stream.native()));
}

absl::StatusOr<double> CublasLtGemm::Time(Way& way, const Trial& trial, int replays) {
  Stream& stream = trial.stream;
  GemmArgs args = trial.args;
  args.weight = trial.weights.back();
  // For the first time out of any recording: code may have to be loaded.
  if (Multiply(way, args, stream) != CUBLAS_STATUS_SUCCESS) {
    return std::numeric_limits<double>::infinity();
  }
  stream.BeginRecording();
  for (size_t i = 0; i < trial.products; ++i) {
    args.weight = trial.weights[i % trial.weights.size()];
    Note(Multiply(way, args, stream), stream);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Graph> graph, stream.EndRecording());
  stream.Run(*graph);
  std::vector<int> marks = {stream.Mark()};
  for (int i = 0; i < replays; ++i) {
    stream.Run(*graph);
    marks.push_back(stream.Mark());
  }
  RETURN_IF_ERROR(stream.Synchronize());
  std::vector<double> seconds;
  for (int i = 0; i < replays; ++i) {
    ASSIGN_OR_RETURN(double replay, stream.ElapsedSeconds(marks[i], marks[i + 1]));
    seconds.push_back(replay / static_cast<double>(trial.products));
  }
  stream.ForgetMarks();
  std::nth_element(seconds.begin(), seconds.begin() + replays / 2, seconds.end());
  return seconds[replays / 2];
}

absl::Status CublasLtGemm::Prepare(const GemmArgs& args, absl::Span<const void* const> weights,
                                   Stream& stream) {
  if (ways_.contains(args.shape)) return absl::OkStatus();
  CHECK(!weights.empty()) << "no weights to try";
  ASSIGN_OR_RETURN(std::vector<Way> ways, Proposals(args.shape));
  const GemmShape& shape = args.shape;
  const size_t bytes = size_t(shape.columns) * shape.depth * BytesPerElement(shape.dtype);
  // As many as the cache does not hold, if there are so many.
  const size_t cold = std::min({3 * cache_bytes_ / bytes + 1, weights.size(), kMostProducts});
  const Trial trial = {args, weights, stream, std::max(cold, kLeastProducts)};
  stream.ForgetMarks();
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < ways.size(); ++i) {
    ASSIGN_OR_RETURN(double seconds, Time(ways[i], trial, kFewReplays));
    if (seconds < std::numeric_limits<double>::infinity()) order.emplace_back(seconds, i);
  }
  if (order.empty()) {
    return absl::UnimplementedError(
        absl::StrCat("cuBLASLt has no way to multiply ", Name(shape.dtype), " [", shape.rows, ", ",
                     shape.depth, "] by [", shape.columns, ", ", shape.depth, "] on ", device_));
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min<size_t>(order.size(), kFinalists));
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  Way* best = nullptr;
  for (const auto& [unused, i] : order) {
    ASSIGN_OR_RETURN(ways[i].seconds, Time(ways[i], trial, kManyReplays));
    if (best == nullptr || ways[i].seconds < kFaster * best->seconds) best = &ways[i];
  }
  ways_.insert({shape, *best});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create() {
  ASSIGN_OR_RETURN(Memory workspace, Memory::OnDevice(kWorkspaceBytes, "matrix products"));
  int ordinal = 0;
  cudaDeviceProp device;
  cudaError_t error = cudaGetDevice(&ordinal);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&device, ordinal);
  if (error != cudaSuccess) return absl::InternalError(cudaGetErrorString(error));
  cublasLtHandle_t handle = nullptr;
  RETURN_IF_ERROR(Told(cublasLtCreate(&handle), "cuBLASLt's start"));
  return std::make_unique<CublasLtGemm>(handle, std::move(workspace), device);
}

}  // namespace bastion::kernels::cuda
