// Gemm with cuBLASLt. cuBLASLt uses column-major matrices: it sees our row-major y [R, N] as N x R,
// x [R, K] as K x R, and W [N, K] as K x N, which it transposes to compute y = Wᵀ x.
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

constexpr size_t kWorkspaceBytes = size_t{64} << 20;  // Twice what NVIDIA recommends on Hopper.
constexpr uint32_t kAlignment = 16;
constexpr int kProposals = 16;  // Algorithms that Prepare requests from cuBLASLt and times.
constexpr int kFinalists = 3;   // The fastest proposals, which are timed again with more replays.
constexpr int kFewReplays = 3, kManyReplays = 15;
constexpr size_t kMinProducts = 4, kMaxProducts = 64;  // Products per replay.
// Prepare prefers an algorithm to one that cuBLASLt ranks higher only if the ratio of their times
// is below this. Otherwise measurement noise would decide.
constexpr double kMaxTimeRatio = 0.98;

absl::Status ToStatus(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat(what, " failed: ", cublasLtGetStatusName(status)));
}

// The cuBLASLt descriptors of one matrix product. These structs need no allocation.
struct Product {
  GemmShape shape;
  cublasLtMatmulDescOpaque_t operation;
  cublasLtMatrixLayoutOpaque_t weight, x, y;
};

absl::StatusOr<Product> ProductOf(const GemmShape& shape) {
  if ((shape.dtype != DType::kF32 && shape.dtype != DType::kBF16) || shape.rows <= 0 ||
      shape.columns <= 0 || shape.depth <= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a GPU matrix product needs bf16 or fp32 and positive sizes; got ", Name(shape.dtype), ", ",
        shape.rows, " rows, ", shape.columns, " columns, depth ", shape.depth));
  }
  const cudaDataType_t type = shape.dtype == DType::kF32 ? CUDA_R_32F : CUDA_R_16BF;
  const auto rows = static_cast<uint64_t>(shape.rows);
  const auto columns = static_cast<uint64_t>(shape.columns);
  const auto depth = static_cast<uint64_t>(shape.depth);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  constexpr char kWhat[] = "creating the cuBLASLt descriptors of a matrix product";
  Product product;
  product.shape = shape;
  // CUBLAS_COMPUTE_32F does not round fp32 inputs to TF32.
  RETURN_IF_ERROR(
      ToStatus(cublasLtMatmulDescInit(&product.operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), kWhat));
  RETURN_IF_ERROR(
      ToStatus(cublasLtMatmulDescSetAttribute(&product.operation, CUBLASLT_MATMUL_DESC_TRANSA,
                                              &transposed, sizeof(transposed)),
               kWhat));
  RETURN_IF_ERROR(ToStatus(
      cublasLtMatrixLayoutInit(&product.weight, type, depth, columns, shape.depth), kWhat));
  RETURN_IF_ERROR(
      ToStatus(cublasLtMatrixLayoutInit(&product.x, type, depth, rows, shape.depth), kWhat));
  RETURN_IF_ERROR(ToStatus(
      cublasLtMatrixLayoutInit(&product.y, CUDA_R_32F, columns, rows, shape.columns), kWhat));
  return product;
}

template <typename T>
absl::Status SetPreference(cublasLtMatmulPreferenceOpaque_t& preference,
                           cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  return ToStatus(
      cublasLtMatmulPreferenceSetAttribute(&preference, attribute, &value, sizeof(value)),
      "setting a cuBLASLt preference");
}

// Allows split-K only with reduction schemes that add the parts in a separate step, in a fixed
// order.
absl::StatusOr<cublasLtMatmulPreferenceOpaque_t> MakePreference() {
  cublasLtMatmulPreferenceOpaque_t preference;
  RETURN_IF_ERROR(
      ToStatus(cublasLtMatmulPreferenceInit(&preference), "creating the cuBLASLt preferences"));
  RETURN_IF_ERROR(SetPreference<uint64_t>(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                          kWorkspaceBytes));
  RETURN_IF_ERROR(SetPreference<uint32_t>(
      preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    RETURN_IF_ERROR(SetPreference<uint32_t>(preference, operand, kAlignment));
  }
  return preference;
}

// An algorithm for one shape, and the time it takes.
struct Candidate {
  Product product;
  cublasLtMatmulAlgo_t algorithm;
  double seconds = 0;
};

// The measurement that compares the candidates for one shape.
struct Trial {
  const GemmArgs& args;
  absl::Span<const void* const> weights;
  Stream& stream;
  size_t products = 0;  // Products per replay.
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
    const auto candidate = chosen_.find(args.shape);
    CHECK(candidate != chosen_.end())
        << "call Gemm::Prepare before Run for this shape: " << args.shape.rows << " rows, "
        << args.shape.columns << " columns, depth " << args.shape.depth;
    ReportError(Multiply(candidate->second, args, stream), stream);
  }

 private:
  [[nodiscard]] absl::StatusOr<std::vector<Candidate>> Proposals(const GemmShape& shape);
  [[nodiscard]] cublasStatus_t Multiply(Candidate& candidate, const GemmArgs& args, Stream& stream);
  // Seconds per product. Infinity if the library fails to run an algorithm that it proposed.
  [[nodiscard]] absl::StatusOr<double> Time(Candidate& candidate, const Trial& trial, int replays);
  static void ReportError(cublasStatus_t status, Stream& stream) {
    if (status == CUBLAS_STATUS_SUCCESS) return;
    const std::string what = absl::StrCat("cublasLtMatmul (", cublasLtGetStatusName(status), ")");
    stream.ReportError(cudaErrorUnknown, what.c_str());
  }

  const cublasLtHandle_t handle_;
  const Memory workspace_;
  const std::string device_;
  const size_t cache_bytes_;
  const uint64_t library_;
  std::map<GemmShape, Candidate> chosen_;
  std::vector<GemmEntry> others_;  // Entries for other devices and library versions.
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
    Candidate candidate = {*product, std::bit_cast<cublasLtMatmulAlgo_t>(entry.algorithm),
                           entry.microseconds * 1e-6};
    cublasLtMatmulHeuristicResult_t result = {};
    const cublasStatus_t checked = cublasLtMatmulAlgoCheck(
        handle_, &candidate.product.operation, &candidate.product.weight, &candidate.product.x,
        &candidate.product.y, &candidate.product.y, &candidate.algorithm, &result);
    // Skip an algorithm that cannot be used; Prepare tunes this shape again.
    if (checked != CUBLAS_STATUS_SUCCESS || result.workspaceSize > kWorkspaceBytes) continue;
    chosen_.insert({entry.shape, candidate});
  }
  return absl::OkStatus();
}

absl::Status CublasLtGemm::Save(const std::string& path) const {
  std::vector<GemmEntry> entries = others_;
  for (const auto& [shape, candidate] : chosen_) {
    const auto words = std::bit_cast<std::array<uint64_t, 8>>(candidate.algorithm);
    entries.push_back({device_, library_, shape, words, candidate.seconds * 1e6});
  }
  return WriteGemmTable(path, entries);
}

absl::StatusOr<std::vector<Candidate>> CublasLtGemm::Proposals(const GemmShape& shape) {
  ASSIGN_OR_RETURN(Product product, ProductOf(shape));
  ASSIGN_OR_RETURN(cublasLtMatmulPreferenceOpaque_t preference, MakePreference());
  cublasLtMatmulHeuristicResult_t results[kProposals] = {};
  int count = 0;
  RETURN_IF_ERROR(ToStatus(cublasLtMatmulAlgoGetHeuristic(
                               handle_, &product.operation, &product.weight, &product.x, &product.y,
                               &product.y, &preference, kProposals, results, &count),
                           "requesting algorithms from cuBLASLt"));
  std::vector<Candidate> candidates;
  for (int i = 0; i < count; ++i) {
    if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
    if (results[i].workspaceSize > kWorkspaceBytes) continue;
    candidates.push_back({product, results[i].algo});
  }
  return candidates;
}

cublasStatus_t CublasLtGemm::Multiply(Candidate& candidate, const GemmArgs& args, Stream& stream) {
  const auto aligned = [](const void* at) {
    return at != nullptr && reinterpret_cast<uintptr_t>(at) % kAlignment == 0;
  };
  CHECK(aligned(args.x) && aligned(args.weight) && aligned(args.y))
      << "x, weight and y must be aligned to " << kAlignment << " bytes";
  const float one = 1, beta = args.shape.accumulate ? 1 : 0;
  Product& product = candidate.product;
  return cublasLtMatmul(handle_, &product.operation, &one, args.weight, &product.weight, args.x,
                        &product.x, &beta, args.y, &product.y, args.y, &product.y,
                        &candidate.algorithm, workspace_.as<void>(), kWorkspaceBytes,
                        static_cast<cudaStream_t>(stream.native()));
}

absl::StatusOr<double> CublasLtGemm::Time(Candidate& candidate, const Trial& trial, int replays) {
  Stream& stream = trial.stream;
  GemmArgs args = trial.args;
  args.weight = trial.weights.back();
  // Run it once outside of a recording, because the library may have to load code.
  if (Multiply(candidate, args, stream) != CUBLAS_STATUS_SUCCESS) {
    return std::numeric_limits<double>::infinity();
  }
  stream.BeginRecording();
  for (size_t i = 0; i < trial.products; ++i) {
    args.weight = trial.weights[i % trial.weights.size()];
    ReportError(Multiply(candidate, args, stream), stream);
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
  if (chosen_.contains(args.shape)) return absl::OkStatus();
  CHECK(!weights.empty()) << "Prepare needs at least one weight matrix";
  ASSIGN_OR_RETURN(std::vector<Candidate> candidates, Proposals(args.shape));
  const GemmShape& shape = args.shape;
  const size_t bytes = Bytes(shape.dtype, int64_t{shape.columns} * shape.depth);
  // If there are enough weights, rotate through three times as many as fit in the L2 cache, so that
  // no product finds its weights there.
  const size_t cold = std::min({3 * cache_bytes_ / bytes + 1, weights.size(), kMaxProducts});
  const Trial trial = {args, weights, stream, std::max(cold, kMinProducts)};
  stream.ForgetMarks();
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < candidates.size(); ++i) {
    ASSIGN_OR_RETURN(double seconds, Time(candidates[i], trial, kFewReplays));
    if (seconds < std::numeric_limits<double>::infinity()) order.emplace_back(seconds, i);
  }
  if (order.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "cuBLASLt has no algorithm for a ", Name(shape.dtype), " product of [", shape.rows, ", ",
        shape.depth, "] and transposed [", shape.columns, ", ", shape.depth, "] on ", device_));
  }
  std::sort(order.begin(), order.end());
  order.resize(std::min<size_t>(order.size(), kFinalists));
  std::sort(order.begin(), order.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  Candidate* best = nullptr;
  for (const auto& [unused, i] : order) {
    ASSIGN_OR_RETURN(candidates[i].seconds, Time(candidates[i], trial, kManyReplays));
    if (best == nullptr || candidates[i].seconds < kMaxTimeRatio * best->seconds)
      best = &candidates[i];
  }
  chosen_.insert({shape, *best});
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Gemm>> Gemm::Create() {
  ASSIGN_OR_RETURN(Memory workspace,
                   Memory::OnDevice(kWorkspaceBytes, "the workspace of matrix products"));
  int ordinal = 0;
  cudaDeviceProp device;
  cudaError_t error = cudaGetDevice(&ordinal);
  if (error == cudaSuccess) error = cudaGetDeviceProperties(&device, ordinal);
  if (error != cudaSuccess) return absl::InternalError(cudaGetErrorString(error));
  cublasLtHandle_t handle = nullptr;
  RETURN_IF_ERROR(ToStatus(cublasLtCreate(&handle), "cublasLtCreate"));
  return std::make_unique<CublasLtGemm>(handle, std::move(workspace), device);
}

}  // namespace bastion::kernels::cuda
