// What the engine asks of the target model, wherever it runs: one forward, the choice after each
// row, and of the keys, values and features only what the walk keeps. Two of them: CpuTarget here,
// CudaTarget on a GPU.
//
// Not thread-safe: one call at a time.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_TARGET_H_
#define BASTION_VERIFIER_SERVICE_MODEL_TARGET_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/hub/model_config.h"
#include "common/nn/device.h"
#include "common/nn/row_batch.h"
#include "common/shm/device_ring.h"
#include "common/stages/features.h"
#include "common/stages/stage_data.h"
#include "verifier_service/verify/choose_tokens.h"

namespace bastion::verifier {

// The choice after one token decoded plainly, and the logits that it was made from.
struct PlainStep {
  TokenId choice = kNoToken;  // −1 where the logits are NaN or rule every token out.
  float* logits = nullptr;    // [V], unedited; the caller may work on them until the next call.
};

class Target {
 public:
  virtual ~Target() = default;

  // Told as soon as it is known that a forward follows.
  virtual void WakeUp() {}

  // Which layers' outputs are features from the next forward on.
  virtual void SetFeatureLayers(const std::vector<int>& layers) = 0;

  // Keys and values of `batch` to the cache; features of all of its rows are kept.
  [[nodiscard]] virtual absl::Status Prefill(const nn::RowBatch& batch) = 0;

  // One forward over `batch`, whose rows `trees` cover in their order, and a walk of each tree
  // along the choices. What is accepted lies side by side in the cache afterwards, behind the root.
  // Outcomes in the trees' order: DATA_LOSS where the logits are NaN. Fills the trace's times.
  [[nodiscard]] virtual std::vector<absl::StatusOr<Acceptance>> Verify(
      const nn::RowBatch& batch, absl::Span<const TreeRows> trees, TimingTrace& trace) = 0;

  // Rows of features [kept, F] that tree `index` of the last Verify, or the last Prefill (0),
  // keeps, in feature_type(). Until the next call.
  [[nodiscard]] virtual absl::Span<const char> KeptFeatures(int index) const = 0;
  [[nodiscard]] virtual DType feature_type() const = 0;
  // The ring where other processes on this GPU can read them; null where there is none.
  [[nodiscard]] virtual std::shared_ptr<const wire::DeviceRingWriter> feature_ring() const {
    return nullptr;
  }
  // Where KeptFeatures(index) lie in it, if they do.
  [[nodiscard]] virtual std::optional<uint64_t> KeptInRing(int /*index*/) const {
    return std::nullopt;
  }

  // One plain step over `batch`, the root alone. It may lie where it is cached already.
  [[nodiscard]] virtual absl::StatusOr<PlainStep> DecodeOne(const nn::RowBatch& batch,
                                                            const TreeRows& root) = 0;

  [[nodiscard]] virtual nn::PagePool& pages() = 0;
  [[nodiscard]] virtual const hub::ModelConfig& config() const = 0;
  // Of a forward with its logits.
  [[nodiscard]] virtual nn::ForwardCost Cost() const = 0;
  // For people: "Intel … , 2 threads, AVX3".
  [[nodiscard]] virtual std::string DescribeDevice() const = 0;
  // Takes up to a second: measured, not looked up.
  [[nodiscard]] virtual DevicePeaks MeasurePeaks() = 0;
};

// How an engine comes by its target: LoadCpuTarget, or LoadCudaTarget of a build with CUDA.
using TargetLoader = absl::StatusOr<std::unique_ptr<Target>> (*)(const std::string& folder,
                                                                 const nn::EngineOptions& options);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_TARGET_H_
