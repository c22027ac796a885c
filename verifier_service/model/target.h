// The interface between the engine and the target model (target_model.h). A target runs one forward
// over trees and prompts. It chooses a token after each row of a tree, and keeps the keys, values
// and features of the rows on the accepted path and of all prompt rows.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
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
#include "common/shm/device_ring.h"
#include "common/stages/features.h"
#include "common/stages/stage_data.h"
#include "engine/model/device.h"
#include "engine/model/forward_cost.h"
#include "engine/model/row_batch.h"
#include "verifier_service/verify/tree_rows.h"

namespace bastion::verifier {

// The choice of a plain decode step, and the logits on which it is based.
struct PlainStep {
  TokenId choice = kNoToken;  // −1 if the logits are NaN or exclude every token.
  float* logits = nullptr;    // [V], unedited. The caller may modify them until the next call.
};

class Target {
 public:
  virtual ~Target() = default;

  // Hint that a forward is about to start. Wakes the worker threads.
  virtual void WakeUp() {}

  // Sets the layers whose outputs are features, from the next forward on. After an error, forwards
  // fail until layers were set. RESOURCE_EXHAUSTED if a GPU's memory is full.
  [[nodiscard]] virtual absl::Status SetFeatureLayers(const std::vector<int>& layers) = 0;

  // Runs one forward over `batch` and walks each tree along the choices. The first spans of `batch`
  // are `trees`, in order; the others are prompts. There is at least one row. Afterwards, the
  // accepted rows directly follow their root in the cache. Returns outcomes in the order of
  // `trees`; DATA_LOSS for a tree with a row whose logits are NaN or exclude every token. Returns
  // an error if the forward failed; then nothing is kept. Fills the trace's times and its
  // experts.
  [[nodiscard]] virtual absl::StatusOr<std::vector<absl::StatusOr<Acceptance>>> Verify(
      const nn::RowBatch& batch, absl::Span<const TreeRows> trees, TimingTrace& trace) = 0;

  // [kept, F] The features, in feature_type(), of the rows of span `index` that the last Verify
  // kept. Valid until the next call.
  [[nodiscard]] virtual absl::Span<const char> KeptFeatures(int index) const = 0;
  [[nodiscard]] virtual DType feature_type() const = 0;
  // The ring from which other processes on this GPU can read these features, or null.
  [[nodiscard]] virtual std::shared_ptr<const wire::DeviceRingWriter> feature_ring() const {
    return nullptr;
  }
  // The position of KeptFeatures(index) in feature_ring(); nullopt if they are not in the ring.
  [[nodiscard]] virtual std::optional<uint64_t> KeptRingPosition(int /*index*/) const {
    return std::nullopt;
  }

  // Runs a plain decode step over `batch`, which holds the root alone. If the root is already
  // cached, the same key and value are written again.
  [[nodiscard]] virtual absl::StatusOr<PlainStep> DecodeOne(const nn::RowBatch& batch,
                                                            const TreeRows& root) = 0;

  [[nodiscard]] virtual nn::PagePool& pages() = 0;
  [[nodiscard]] virtual const hub::ModelConfig& config() const = 0;
  // The bytes read and the multiply-adds of a forward, including its logits.
  [[nodiscard]] virtual nn::ForwardCost Cost() const = 0;
  // Where the model runs.
  [[nodiscard]] virtual nn::Device& device() const = 0;
  // Measures the device. Takes less than a second.
  [[nodiscard]] virtual DevicePeaks MeasurePeaks() = 0;
};

// Loads an engine's target: LoadTarget, or a fake.
using TargetLoader = absl::StatusOr<std::unique_ptr<Target>> (*)(const std::string& folder,
                                                                 const nn::EngineOptions& options);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_TARGET_H_
