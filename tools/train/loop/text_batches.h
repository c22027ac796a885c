// TextBatches: draws the texts of a step and computes what the target makes of them.
#ifndef BASTION_TOOLS_TRAIN_LOOP_TEXT_BATCHES_H_
#define BASTION_TOOLS_TRAIN_LOOP_TEXT_BATCHES_H_

#include "kernels/torch/torch.h"
// After torch.h.
#include <deque>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/train/loop/target_features.h"
#include "tools/train/models/draws.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/trainable_drafter.h"
#include "tools/train/teach/teacher_text.h"

namespace bastion::train {

struct BatchOptions {
  int texts = 16;         // B
  int max_tokens = 4096;  // Longer texts are cut.
  int min_written = 1;    // Texts in which the target wrote fewer tokens are left out.
  // How often a text is used on average, at other places each time, before its features are
  // dropped. On a CPU, the target's forward costs more than a step of a small drafter.
  int uses = 8;
  uint64_t seed = 1;  // Draws the texts.
};

class TextBatches {
 public:
  // Loads a second copy of the target, into the engine. INVALID_ARGUMENT if fewer than B texts are
  // long enough. `target` must outlive the object. `features` says which target, and how it runs;
  // its layers are those of the drafter.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TextBatches>> Create(
      std::vector<TeacherText> texts, const FrozenTarget& target, TargetFeaturesOptions features,
      const BatchOptions& options);

  // The texts of a step: of those that were read last, B of similar length. They depend on the
  // seeds and the step only. Errors: those of TargetFeatures::Read.
  [[nodiscard]] absl::StatusOr<TextBatch> Next(int64_t step, Draws& draws);

  [[nodiscard]] size_t texts() const { return texts_.size(); }

 private:
  struct ReadText {
    const TeacherText* text;
    at::Tensor outputs;  // [T, width of TargetFeatures]
  };
  TextBatches(const FrozenTarget& target, const BatchOptions& options)
      : target_(target), options_(options) {}
  // Runs the target over the new texts of a step, in place of the oldest.
  [[nodiscard]] absl::Status ReadNewTexts(int64_t step);
  [[nodiscard]] TextBatch Pad(const std::vector<const ReadText*>& chosen) const;

  const FrozenTarget& target_;
  const BatchOptions options_;
  std::vector<TeacherText> texts_;
  std::unique_ptr<TargetFeatures> features_;
  int64_t feature_width_ = 0;  // F of the drafter.
  int64_t last_layer_ = 0;     // The column of TargetFeatures where the last layer's output begins.
  std::deque<ReadText> pool_;  // The oldest first.
  int64_t read_step_ = 0;      // The last step whose new texts are in the pool.
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_LOOP_TEXT_BATCHES_H_
