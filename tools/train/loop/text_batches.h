// TextBatches: the texts of a step, and what the target computed for them. Features of the texts in
// the pool stay in memory, so that the target does not run over a text in every step that uses it.
//
// Not thread-safe.
#ifndef BASTION_TOOLS_TRAIN_LOOP_TEXT_BATCHES_H_
#define BASTION_TOOLS_TRAIN_LOOP_TEXT_BATCHES_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <memory>
#include <unordered_map>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/loop/target_features.h"
#include "tools/train/loop/text_pool.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/trainable_drafter.h"
#include "tools/train/teach/teacher_text.h"

namespace bastion::train {

struct BatchOptions {
  int texts = 16;         // B
  int max_tokens = 4096;  // Longer texts are cut.
  int min_written = 1;    // Texts in which the target wrote fewer tokens are left out.
  // Memory for the features of the pool, in bf16.
  int64_t pool_bytes = int64_t{512} << 20;
  // Steps that use a text, at other places each time, before another one takes its place in the
  // pool. On a CPU, the target's forward costs more than a step of a small drafter.
  int uses = 8;
  uint64_t seed = 1;  // Draws the texts.
};

class TextBatches {
 public:
  // Loads a second copy of the target, into the engine. INVALID_ARGUMENT if fewer than 2 B texts
  // are long enough, or fit into the memory of the pool. `target` must outlive the object.
  // `features` says which target, and how it runs; its layers are those of the drafter.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TextBatches>> Create(
      std::vector<TeacherText> texts, const FrozenTarget& target, TargetFeaturesOptions features,
      const BatchOptions& options);

  // The texts of a step. They depend on the seed and the step only: the first call of a resumed run
  // repeats the choices of all steps before, and reads a text when a step uses it. REQUIRES: `step`
  // is greater than in the call before. Errors: those of TargetFeatures::Read.
  [[nodiscard]] absl::StatusOr<TextBatch> Next(int64_t step);

  [[nodiscard]] size_t texts() const { return texts_.size(); }
  [[nodiscard]] int pool_size() const { return pool_size_; }
  // Bytes of features that are in memory.
  [[nodiscard]] int64_t held_bytes() const;

 private:
  TextBatches(const FrozenTarget& target, const BatchOptions& options)
      : target_(target), options_(options) {}
  // Says where the parts of a row of features are.
  void SetLayers(std::vector<int>& layers);
  [[nodiscard]] absl::Status MakePool(size_t given);
  // Runs the target over those of `chosen` that have no features in memory.
  [[nodiscard]] absl::Status Read(const std::vector<int>& chosen);
  [[nodiscard]] TextBatch Pad(const std::vector<int>& chosen) const;

  const FrozenTarget& target_;
  const BatchOptions options_;
  std::vector<TeacherText> texts_;
  std::unique_ptr<TargetFeatures> features_;
  int64_t width_ = 0;          // Elements of a row of features.
  int64_t feature_width_ = 0;  // F of the drafter.
  int64_t last_layer_ = 0;     // The column where the last layer's output begins.
  int pool_size_ = 0;
  std::unique_ptr<TextPool> pool_;
  std::unordered_map<int, at::Tensor> held_;  // [T, width] in bf16, by text.
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_LOOP_TEXT_BATCHES_H_
