#include "tools/train/loop/target_features.h"

#include "absl/cleanup/cleanup.h"
#include "common/base/status.h"
#include "kernels/ops/pack.h"
#include "tools/train/teach/prefill.h"

namespace bastion::train {
namespace {

constexpr int kRows = 1024;  // Rows of one forward.

}  // namespace

absl::StatusOr<std::unique_ptr<TargetFeatures>> TargetFeatures::Create(
    const TargetFeaturesOptions& options) {
  auto features = std::unique_ptr<TargetFeatures>(new TargetFeatures());
  ASSIGN_OR_RETURN(features->device_, nn::OpenLocalDevice(options.device));
  verifier::VerifierOptions engine;
  engine.target_folder = options.target_folder;
  ASSIGN_OR_RETURN(engine.engine.formats, nn::ParseFormats(options.formats));
  engine.engine.device = features->device_.device;
  // Each text may leave one page partly empty.
  engine.engine.kv_tokens = options.max_texts * (options.max_tokens + kernels::kPageTokens);
  engine.max_sequences = options.max_texts;
  engine.max_rows = kRows;
  engine.reuse_prefixes = false;
  ASSIGN_OR_RETURN(features->engine_, verifier::VerifierEngine::Create(engine));
  RETURN_IF_ERROR(features->engine_->SetFeatureLayers(options.layers));
  features->width_ =
      static_cast<int>(options.layers.size()) * features->engine_->info().dims.hidden;
  return features;
}

absl::Status TargetFeatures::Read(absl::Span<const TextRows> texts) {
  const uint64_t first = last_session_ + 1;
  last_session_ += texts.size();
  const absl::Cleanup close = [&] {
    for (uint64_t session = first; session <= last_session_; ++session)
      engine_->Close({session, 0});
  };
  for (uint64_t session = first; session <= last_session_; ++session) {
    RETURN_IF_ERROR(engine_->Open({session, 0}, {}));
  }
  std::vector<PrefillText> prompts;
  for (size_t i = 0; i < texts.size(); ++i) prompts.push_back({{first + i, 0}, texts[i].tokens});
  RETURN_IF_ERROR(Prefill(*engine_, prompts));
  for (size_t i = 0; i < texts.size(); ++i) RETURN_IF_ERROR(CopyRows({first + i, 0}, texts[i]));
  return absl::OkStatus();
}

absl::Status TargetFeatures::CopyRows(SequenceId sequence, const TextRows& text) {
  const auto count = static_cast<int>(text.tokens.size());
  ASSIGN_OR_RETURN(const Features features,
                   engine_->features().Read({sequence, 0, count}, absl::ZeroDuration()));
  kernels::ConvertElements(features.type, features.bytes.data(), int64_t{count} * width_,
                           DType::kF32, text.rows);
  return absl::OkStatus();
}

}  // namespace bastion::train
