// TargetFeatures: runs the target over whole texts and returns the outputs of some of its layers.
// The engine computes them with the same bits as when it serves. They are never stored: a text's
// features take kilobytes per token.
//
// Not thread-safe: one call at a time.
#ifndef BASTION_TOOLS_TRAIN_LOOP_TARGET_FEATURES_H_
#define BASTION_TOOLS_TRAIN_LOOP_TARGET_FEATURES_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/program/format_names.h"
#include "engine/program/local_device.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::train {

struct TargetFeaturesOptions {
  std::string target_folder;
  nn::FormatNames formats = {};
  nn::DeviceChoice device = {};
  std::vector<int> layers;  // No layer twice.
  // Limits of one call of Read.
  int max_texts = 16;
  int max_tokens = 4096;  // Tokens of one text.
};

// A text and where its features go: [tokens, F] floats.
struct TextRows {
  absl::Span<const TokenId> tokens;
  float* rows = nullptr;
};

class TargetFeatures {
 public:
  // Loads the target. Errors: those of VerifierEngine::Create and SetFeatureLayers.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TargetFeatures>> Create(
      const TargetFeaturesOptions& options);

  // Runs the target over the texts and writes their features. Errors: the engine's.
  [[nodiscard]] absl::Status Read(absl::Span<const TextRows> texts);

  [[nodiscard]] int width() const { return width_; }  // F

 private:
  TargetFeatures() = default;
  [[nodiscard]] absl::Status CopyRows(SequenceId sequence, const TextRows& text);

  nn::LocalDevice device_;
  std::unique_ptr<verifier::VerifierEngine> engine_;
  int width_ = 0;
  uint64_t last_session_ = 0;
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_LOOP_TARGET_FEATURES_H_
