// Step: forwards of a decoder with their inputs, logits and features. Targets and drafters run
// their models with it.
//
// Not thread-safe. Shape legend: common/base/ids.h.
#ifndef BASTION_ENGINE_MODEL_STEP_H_
#define BASTION_ENGINE_MODEL_STEP_H_

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/decoder.h"
#include "engine/model/row_buckets.h"
#include "engine/model/step_inputs.h"

namespace bastion::nn {

struct StepSizes {
  // The row counts to which a step is padded on a device that records (row_buckets.h), ascending.
  std::vector<int> rows;    // Rows of a forward.
  std::vector<int> wanted;  // Rows with logits.
  bool gathers = false;     // The wanted rows are listed (StepContents), not the walked ones.
};

// Fills the residual stream of `rows` before the blocks: a way to begin a forward.
using Entry = std::function<void(const kernels::Rows& rows)>;

class Step {
 public:
  // `decoder` and `vocabulary` must outlive the step. Without `entries`, forwards begin with the
  // embedding of their tokens. RESOURCE_EXHAUSTED if the device has too little memory.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<Step>> Create(
      Decoder& decoder, const Vocabulary& vocabulary, StepSizes sizes,
      std::vector<Entry> entries = {});

  // Sets the layers whose outputs are features, from the next forward on. On a device that records,
  // runs all sizes once. After an error, forwards fail until layers were set.
  [[nodiscard]] absl::Status SetFeatureLayers(const std::vector<int>& layers, bool show_progress);

  // Sends `contents` and runs the decoder over its rows, from an entry on. INVALID_ARGUMENT if
  // there are too many.
  [[nodiscard]] absl::Status Forward(const StepContents& contents, int entry = 0);
  // Computes the logits of the wanted rows of the last forward.
  [[nodiscard]] absl::Status Head();

  // `rows` rows, padded to one of the sizes.
  [[nodiscard]] int PaddedRows(int rows) const { return BucketOf(sizes_.rows, rows); }
  [[nodiscard]] int PaddedWanted(int rows) const { return BucketOf(sizes_.wanted, rows); }
  [[nodiscard]] const StepSizes& sizes() const { return sizes_; }

  [[nodiscard]] const StepInputs& inputs() const { return inputs_; }
  [[nodiscard]] int wanted_rows() const { return wanted_rows_; }
  [[nodiscard]] Logits& logits() { return *logits_; }
  // [R, F] of feature_type(), of the last forward.
  [[nodiscard]] const void* features() const { return taps_.features; }
  [[nodiscard]] DType feature_type() const { return taps_.type; }
  [[nodiscard]] int feature_width() const {
    return static_cast<int>(taps_.layers.size()) * decoder_.config().dims.hidden;
  }
  [[nodiscard]] size_t feature_row_bytes() const { return Bytes(taps_.type, feature_width()); }
  [[nodiscard]] Decoder& decoder() { return decoder_; }
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }
  [[nodiscard]] double touched_experts() const { return decoder_.activations().touched_experts(); }
  // The bytes read and the multiply-adds of a forward, including its logits.
  [[nodiscard]] ForwardCost Cost() const;

 private:
  Step(Decoder& decoder, const Vocabulary& vocabulary, StepSizes sizes)
      : decoder_(decoder), vocabulary_(vocabulary), sizes_(std::move(sizes)) {}

  // Run or record the operations for `rows` rows.
  [[nodiscard]] absl::Status RunForward(int rows, int entry);
  [[nodiscard]] absl::Status RunHead(int rows);

  Decoder& decoder_;
  const Vocabulary& vocabulary_;
  const StepSizes sizes_;
  std::vector<Entry> entries_;
  StepInputs inputs_;
  std::unique_ptr<Logits> logits_;
  FeatureTaps taps_;
  Buffer features_;  // [R, F]
  int wanted_rows_ = 0;
  bool ready_ = false;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_STEP_H_
