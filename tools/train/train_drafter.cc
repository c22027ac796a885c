#include "kernels/torch/torch.h"
// After torch.h.
#include <malloc.h>

#include <limits>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/cores.h"
#include "common/base/status.h"
#include "common/hub/tokenizer.h"
#include "tools/bench/prompts.h"
#include "tools/train/loop/judge.h"
#include "tools/train/loop/text_batches.h"
#include "tools/train/loop/training_run.h"
#include "tools/train/models/frozen_target.h"
#include "tools/train/models/products.h"
#include "tools/train/models/trainable_kinds.h"
#include "tools/train/train_drafter.h"

namespace bastion::train {
namespace {

constexpr int kJudgedTokens = 64;  // Per prompt.

RunOptions RunOptionsOf(const TrainOptions& options) {
  RunOptions run;
  run.out = options.out;
  run.steps = options.learning.steps;
  run.time = options.learning.time;
  run.resume = options.resume;
  run.seed = options.learning.seed;
  run.save_every = options.save_every;
  run.schedule.decay_from = options.learning.decay_from;
  run.optimizer.map_rate = options.learning.map_rate;
  run.optimizer.vector_rate = options.learning.vector_rate;
  run.optimizer.clip = options.learning.clip;
  run.judgements = options.judged.judgements;
  run.bf16_products = options.learning.bf16_products.value_or(HasFastBf16Products());
  return run;
}

// Null without prompts.
absl::StatusOr<TrainingRun::Judge> MakeJudge(const TrainOptions& options) {
  if (options.judged.file.empty()) return nullptr;
  JudgeOptions judge;
  judge.models.target_folder = options.target;
  judge.models.formats = options.formats;
  judge.models.device = options.device;
  judge.policies = {"chain", "fixed:16", "fixed:64"};
  judge.max_new_tokens = kJudgedTokens;
  ASSIGN_OR_RETURN(judge.prompts, LoadPrompts(options.judged.file, options.target));
  const auto limit = static_cast<size_t>(options.judged.limit);
  if (judge.prompts.size() > limit) judge.prompts.resize(limit);
  return [judge](const std::string& folder) { return JudgeDrafter(judge, folder); };
}

// The texts of the folder. A drafter learns what its own target would write.
absl::StatusOr<std::vector<TeacherText>> ReadTeacher(const std::string& folder,
                                                     const FrozenTarget& target) {
  ASSIGN_OR_RETURN(const TeacherInfo info, ReadTeacherInfo(folder));
  ASSIGN_OR_RETURN(const std::string identity, target.checkpoint->Identity());
  if (info.target != identity) {
    return absl::FailedPreconditionError(absl::StrCat(
        folder, ": another target wrote this text; run bastion-train teach with ", target.folder));
  }
  return ReadTeacherTexts(folder, target.config.dims.vocabulary);
}

// The shape with a mask token, if the target's tokenizer has a token of that name.
DrafterShape WithMaskToken(DrafterShape shape, const std::string& target) {
  if (shape.mask_token != kNoToken) return shape;
  const absl::StatusOr<hub::Tokenizer> tokenizer = hub::Tokenizer::Load(target);
  for (const char* name : {"<|mask|>", "<mask>", "[MASK]"}) {
    if (tokenizer.ok() && shape.mask_token == kNoToken) {
      shape.mask_token = tokenizer->Find(name).value_or(kNoToken);
    }
  }
  return shape;
}

// The shape with the tokens that the drafter can predict.
absl::StatusOr<DrafterShape> WithDraftTokens(DrafterShape shape, int count, int vocabulary,
                                             absl::Span<const TeacherText> texts) {
  if (count > vocabulary) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--draft_vocabulary is ", count, "; the target has only ", vocabulary, " tokens"));
  }
  const bool chooses = count > 0 && count < vocabulary;
  if (chooses) shape.draft_tokens = FrequentTokens(texts, vocabulary, count);
  return shape;
}

}  // namespace

absl::Status TrainDrafter(const TrainOptions& options) {
  // Every step uses the same memory again. Without these, the system clears it each time.
  mallopt(M_MMAP_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
  const int cores = static_cast<int>(UsableCores().size());
  at::set_num_threads(options.device.threads > 0 ? options.device.threads : cores);
  ASSIGN_OR_RETURN(const FrozenTarget target, FrozenTarget::Load(options.target));
  ASSIGN_OR_RETURN(std::vector<TeacherText> texts, ReadTeacher(options.teacher, target));
  ASSIGN_OR_RETURN(const DrafterShape shape,
                   WithDraftTokens(WithMaskToken(options.shape, options.target),
                                   options.draft_vocabulary, target.config.dims.vocabulary, texts));
  ASSIGN_OR_RETURN(const std::unique_ptr<TrainableDrafter> drafter,
                   MakeTrainableDrafter(options.kind, target, shape, options.learning.seed));
  TargetFeaturesOptions features;
  features.target_folder = options.target;
  features.formats = options.formats;
  features.device = options.device;
  features.layers = drafter->feature_layers();
  ASSIGN_OR_RETURN(const std::unique_ptr<TextBatches> batches,
                   TextBatches::Create(std::move(texts), target, std::move(features),
                                       {.texts = options.learning.texts,
                                        .min_written = drafter->min_written(),
                                        .pool_bytes = options.learning.pool_bytes,
                                        .uses = options.learning.pool_uses,
                                        .seed = ~options.learning.seed}));
  LOG(INFO) << "training on " << batches->texts() << " texts, " << batches->pool_size()
            << " of them in the pool";
  ASSIGN_OR_RETURN(TrainingRun::Judge judge, MakeJudge(options));
  const RunOptions run_options = RunOptionsOf(options);
  LOG(INFO) << "matrix products in " << (run_options.bf16_products ? "bf16" : "fp32");
  TrainingRun run(
      *drafter, [&](int64_t step, Draws& /*draws*/) { return batches->Next(step); },
      std::move(judge), run_options);
  return run.Run();
}

}  // namespace bastion::train
