#include "tools/train/flags.h"

#include <algorithm>
#include <utility>

#include "absl/flags/flag.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "common/base/status.h"
#include "engine/program/flags.h"

ABSL_FLAG(std::string, target, "",
          "Folder or GGUF file of the target. The prior reads only its config and tokenizer.");
ABSL_FLAG(std::string, out, ".",
          "Folder for the result: the teacher text, the drafter, or transition_prior.safetensors, "
          "which belongs into the drafter's folder.");
ABSL_FLAG(bool, resume, false, "Continue the training run in --out.");
ABSL_FLAG(double, save_minutes, 3, "Minutes after which a run saves its state for --resume.");
ABSL_FLAG(uint64_t, seed, 1, "Random seed of the texts, the anchors and the first weights.");

ABSL_FLAG(
    std::string, prompts, "",
    "File of prompts: JSON lines {\"id\", \"text\"}, {\"id\", \"token_ids\"} or {\"id\", "
    "\"messages\"}. Command turns writes it; the target continues its prompts (teach); the judge "
    "measures on them (training: prompts that are not in the teacher text).");
ABSL_FLAG(std::string, template_args, "{}",
          "JSON object of further variables of the chat template, e.g. {\"enable_thinking\": "
          "false}.");
ABSL_FLAG(std::vector<std::string>, temperatures, std::vector<std::string>({"0", "0.8"}),
          "Temperatures of the texts, separated by commas. The prompts take turns. 0: greedy.");
ABSL_FLAG(int, max_new_tokens, 160, "Maximum number of tokens that the target writes per prompt.");
ABSL_FLAG(int, live, 64, "Texts that the target writes at the same time.");
ABSL_FLAG(int, count, 1000, "Number of user turns to write.");

ABSL_FLAG(std::string, teacher, "", "Folder of the teacher text, written by bastion-train teach.");
ABSL_FLAG(double, minutes, 0,
          "Minutes to train or to write text. 0: --steps decides, or all prompts.");
ABSL_FLAG(int64_t, steps, 0,
          "Steps to train. A run that was stopped and resumed then has the same bits as an "
          "undisturbed run. 0: --minutes decides.");
ABSL_FLAG(int, texts, 16, "Texts per step.");
ABSL_FLAG(int64_t, pool_bytes, int64_t{512} << 20,
          "Bytes of memory for the features of the texts that steps draw from. Larger: more texts. "
          "Default: 512 MiB.");
ABSL_FLAG(int, pool_uses, 8,
          "Steps that use a text, at other places each time, before another text takes its place "
          "in the pool. If all texts fit into the pool, they stay there.");
ABSL_FLAG(double, map_rate, 0.02, "Peak learning rate of the matrices of layers (Muon).");
ABSL_FLAG(double, vector_rate, 0.003, "Peak learning rate of all other parameters (AdamW).");
ABSL_FLAG(double, decay_from, 0.4, "Fraction of the run after which the learning rates fall to 0.");
ABSL_FLAG(double, clip, 0, "Largest norm of all gradients together. 0: no limit.");
ABSL_FLAG(std::string, products, "auto",
          "Type of the numbers that the matrix products of training multiply: bf16 or fp32. auto: "
          "bf16 if the CPU has instructions for it.");
ABSL_FLAG(int, judgements, 5,
          "How often the serving engine measures the drafter on --prompts. The best drafter is "
          "kept.");
ABSL_FLAG(int, judge_prompts, 16, "Prompts that the judge uses: the first of --prompts.");

ABSL_FLAG(int, layers, 0, "Decoder layers of the drafter. 0: the default of its kind.");
ABSL_FLAG(int, hidden, 0,
          "Width of an autoregressive drafter's hidden states. 0: the default of its kind. Other "
          "kinds have the target's.");
ABSL_FLAG(int, intermediate, 0, "Width of its feed-forward layers. 0: the target's.");
ABSL_FLAG(int, block, 0, "Tokens of one draft forward, root included. 0: the default of its kind.");
ABSL_FLAG(std::vector<std::string>, feature_layers, {},
          "Layers of the target whose outputs it reads, separated by commas. Empty: the default of "
          "its kind.");
ABSL_FLAG(int, mask_token, -1,
          "A token of the target that occurs in no text, for DFlash and ParallelSpec. -1: the "
          "token <|mask|>, <mask> or [MASK], if the tokenizer has one.");
ABSL_FLAG(
    int, draft_steps, 0,
    "Tokens that an EAGLE-3 drafter drafts after each place in a text during training. 0: 7.");
ABSL_FLAG(
    int, draft_vocabulary, 0,
    "Number of tokens that an EAGLE-3, ParallelSpec or SpecBlock drafter can predict: those that "
    "the target wrote most often in the teacher text. 0: all.");

ABSL_FLAG(int, selector_rank, 0, "Factors of a score of DFlash 2's selector. 0: 64.");
ABSL_FLAG(double, selector_weight, 0,
          "Weight of the loss of DFlash 2's selector in the gradients of the drafter's other "
          "parameters. 0: the selector learns from the drafter's rows, and does not change them.");

ABSL_FLAG(int, positions, 0,
          "Tokens that one block of a SpecBlock drafter predicts, or one forward of a ParallelSpec "
          "drafter; the heads of Medusa. 0: the default of its kind.");
ABSL_FLAG(int, blocks, 2,
          "Blocks that a SpecBlock drafter drafts after each place in a text during training.");
ABSL_FLAG(std::string, block_positions, "same",
          "Positions of the later blocks of a SpecBlock drafter. same: those of the first block. "
          "path: greater by the number of tokens that lie between the blocks' starts.");
ABSL_FLAG(double, position_decay, 1,
          "Position k of a block counts this number to the power of k - 1 in the loss of a "
          "SpecBlock drafter. The paper: 1. The authors' code: 0.8.");
ABSL_FLAG(std::string, block_mask, "one",
          "Whether a later block of a SpecBlock drafter counts in the loss. one: always. carry: if "
          "the tokens before its start are predicted right.");
ABSL_FLAG(
    std::string, rank_loss, "plain",
    "Loss of the rank head of a SpecBlock drafter. plain: that of the paper. ordinal: that of "
    "the authors' code.");
ABSL_FLAG(int64_t, rank_steps, -1,
          "Steps before the rank head of a SpecBlock drafter learns. -1: a tenth of the run.");
ABSL_FLAG(bool, no_shift, false,
          "Ablation: train a SpecBlock drafter whose rows do not read the row before them.");
ABSL_FLAG(bool, no_prefix_broadcast, false,
          "Ablation: only the first row of a SpecBlock drafter's block reads the condition and the "
          "embedding of its token.");
ABSL_FLAG(bool, no_prefix_mask, false,
          "Ablation: all positions of a SpecBlock drafter's blocks count in the loss, not only "
          "those after right ones.");

ABSL_FLAG(int, continuations, bastion::drafter::TransitionLimits().singles,
          "Maximum number of continuations to keep for a token.");
ABSL_FLAG(int, pair_continuations, bastion::drafter::TransitionLimits().pairs,
          "Maximum number of continuations to keep for a pair of tokens. Continuations seen only "
          "once are dropped.");
ABSL_FLAG(int, min_pair_count, bastion::drafter::TransitionLimits().min_pair_total,
          "Pairs that occur fewer times than this are dropped.");
ABSL_FLAG(int64_t, max_entries, bastion::drafter::TransitionLimits().max_entries,
          "Maximum number of continuations to keep in total. The rarest pairs are dropped first.");
ABSL_FLAG(int64_t, max_counted, bastion::drafter::TransitionCounter::kMaxCounted,
          "Maximum number of continuations of single tokens to hold in memory while counting. The "
          "same maximum applies to continuations of pairs. Each takes 70 to 140 bytes. When there "
          "are more, the rarest are dropped.");

namespace bastion::train {
namespace {

template <typename Number, typename Parse>
absl::StatusOr<std::vector<Number>> Numbers(const std::vector<std::string>& texts, const char* flag,
                                            Parse parse) {
  std::vector<Number> numbers;
  for (const std::string& text : texts) {
    if (!parse(text, &numbers.emplace_back())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--", flag, ": \"", text, "\" is not a number"));
    }
  }
  return numbers;
}

absl::Status CheckPositive(const char* flag, double value) {
  if (value > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " must be positive"));
}

absl::Status CheckGiven(const char* flag, const std::string& value, const char* what) {
  if (!value.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--", flag, " is missing: ", what));
}

// The place, from 0, of a flag's value among `values`.
absl::StatusOr<int> ChoiceOf(const absl::Flag<std::string>& flag,
                             const std::vector<std::string>& values) {
  const std::string value = absl::GetFlag(flag);
  const auto found = std::find(values.begin(), values.end(), value);
  if (found != values.end()) return static_cast<int>(found - values.begin());
  return absl::InvalidArgumentError(absl::StrCat("--", flag.Name(), " is \"", value,
                                                 "\"; it must be ", absl::StrJoin(values, " or ")));
}

// Whether a flag has the second of its two values.
absl::StatusOr<bool> IsSecond(const absl::Flag<std::string>& flag, const char* first,
                              const char* second) {
  ASSIGN_OR_RETURN(const int choice, ChoiceOf(flag, {first, second}));
  return choice == 1;
}

absl::StatusOr<LearningOptions> ReadLearningFlags() {
  LearningOptions learning;
  learning.steps = absl::GetFlag(FLAGS_steps);
  const double minutes = absl::GetFlag(FLAGS_minutes);
  learning.time = absl::Minutes(minutes);
  if (learning.steps < 0 || minutes < 0 || (learning.steps > 0) == (minutes > 0)) {
    return absl::InvalidArgumentError("give either --minutes or --steps, as a positive number");
  }
  learning.texts = absl::GetFlag(FLAGS_texts);
  learning.map_rate = absl::GetFlag(FLAGS_map_rate);
  learning.vector_rate = absl::GetFlag(FLAGS_vector_rate);
  learning.decay_from = absl::GetFlag(FLAGS_decay_from);
  learning.clip = absl::GetFlag(FLAGS_clip);
  learning.seed = absl::GetFlag(FLAGS_seed);
  learning.pool_bytes = absl::GetFlag(FLAGS_pool_bytes);
  learning.pool_uses = absl::GetFlag(FLAGS_pool_uses);
  ASSIGN_OR_RETURN(const int products, ChoiceOf(FLAGS_products, {"auto", "fp32", "bf16"}));
  if (products > 0) learning.bf16_products = products == 2;
  RETURN_IF_ERROR(CheckPositive("texts", learning.texts));
  RETURN_IF_ERROR(CheckPositive("pool_bytes", static_cast<double>(learning.pool_bytes)));
  RETURN_IF_ERROR(CheckPositive("pool_uses", learning.pool_uses));
  RETURN_IF_ERROR(CheckPositive("map_rate", learning.map_rate));
  RETURN_IF_ERROR(CheckPositive("vector_rate", learning.vector_rate));
  if (learning.decay_from < 0 || learning.decay_from >= 1) {
    return absl::InvalidArgumentError("--decay_from must be in [0, 1)");
  }
  if (learning.clip < 0) return absl::InvalidArgumentError("--clip must not be negative");
  return learning;
}

absl::Status ReadSpecBlockFlags(DrafterShape& shape) {
  shape.positions = absl::GetFlag(FLAGS_positions);
  shape.specblock.shift = !absl::GetFlag(FLAGS_no_shift);
  shape.specblock.prefix_broadcast = !absl::GetFlag(FLAGS_no_prefix_broadcast);
  ASSIGN_OR_RETURN(shape.specblock.path_positions, IsSecond(FLAGS_block_positions, "same", "path"));
  BlockLearning& learning = shape.specblock.learning;
  learning.blocks = absl::GetFlag(FLAGS_blocks);
  learning.position_decay = absl::GetFlag(FLAGS_position_decay);
  learning.prefix_mask = !absl::GetFlag(FLAGS_no_prefix_mask);
  ASSIGN_OR_RETURN(learning.carries_mask, IsSecond(FLAGS_block_mask, "one", "carry"));
  ASSIGN_OR_RETURN(learning.ordinal_ranks, IsSecond(FLAGS_rank_loss, "plain", "ordinal"));
  learning.rank_steps = absl::GetFlag(FLAGS_rank_steps);
  RETURN_IF_ERROR(CheckPositive("blocks", learning.blocks));
  return CheckPositive("position_decay", learning.position_decay);
}

absl::StatusOr<DrafterShape> ReadShapeFlags() {
  DrafterShape shape;
  shape.layers = absl::GetFlag(FLAGS_layers);
  shape.hidden = absl::GetFlag(FLAGS_hidden);
  shape.intermediate = absl::GetFlag(FLAGS_intermediate);
  shape.block = absl::GetFlag(FLAGS_block);
  shape.mask_token = absl::GetFlag(FLAGS_mask_token);
  shape.draft_steps = absl::GetFlag(FLAGS_draft_steps);
  RETURN_IF_ERROR(ReadSpecBlockFlags(shape));
  shape.selector = {absl::GetFlag(FLAGS_selector_rank), absl::GetFlag(FLAGS_selector_weight)};
  if (shape.selector.rank < 0 || shape.selector.weight < 0) {
    return absl::InvalidArgumentError("--selector_rank and --selector_weight must not be negative");
  }
  if (std::min({shape.layers, shape.hidden, shape.intermediate, shape.block, shape.draft_steps,
                shape.positions}) < 0) {
    return absl::InvalidArgumentError(
        "--layers, --hidden, --intermediate, --block, --draft_steps and --positions must not be "
        "negative");
  }
  ASSIGN_OR_RETURN(shape.feature_layers,
                   Numbers<int>(absl::GetFlag(FLAGS_feature_layers), "feature_layers",
                                [](const std::string& text, int* number) {
                                  return absl::SimpleAtoi(text, number);
                                }));
  return shape;
}

}  // namespace

absl::StatusOr<drafter::PriorOptions> ReadPriorFlags(std::vector<std::string> files) {
  drafter::PriorOptions options;
  options.target = absl::GetFlag(FLAGS_target);
  options.out = absl::GetFlag(FLAGS_out);
  options.files = std::move(files);
  options.limits.singles = absl::GetFlag(FLAGS_continuations);
  options.limits.pairs = absl::GetFlag(FLAGS_pair_continuations);
  options.limits.min_pair_total = absl::GetFlag(FLAGS_min_pair_count);
  options.limits.max_entries = absl::GetFlag(FLAGS_max_entries);
  options.max_counted = absl::GetFlag(FLAGS_max_counted);
  return options;
}

absl::StatusOr<TeachOptions> ReadTeachFlags() {
  TeachOptions options;
  options.target = absl::GetFlag(FLAGS_target);
  options.formats = nn::FormatFlags();
  options.device = nn::DeviceFlags();
  options.prompts = absl::GetFlag(FLAGS_prompts);
  options.template_args = absl::GetFlag(FLAGS_template_args);
  options.out = absl::GetFlag(FLAGS_out);
  options.seed = absl::GetFlag(FLAGS_seed);
  options.max_new_tokens = absl::GetFlag(FLAGS_max_new_tokens);
  options.live = absl::GetFlag(FLAGS_live);
  const double minutes = absl::GetFlag(FLAGS_minutes);
  if (minutes > 0) options.time = absl::Minutes(minutes);
  RETURN_IF_ERROR(CheckGiven("prompts", options.prompts, "the file that the target continues"));
  ASSIGN_OR_RETURN(options.temperatures,
                   Numbers<float>(absl::GetFlag(FLAGS_temperatures), "temperatures",
                                  [](const std::string& text, float* number) {
                                    return absl::SimpleAtof(text, number) && *number >= 0;
                                  }));
  return options;
}

absl::StatusOr<TurnsOptions> ReadTurnsFlags() {
  TurnsOptions options;
  options.target = absl::GetFlag(FLAGS_target);
  options.formats = nn::FormatFlags();
  options.device = nn::DeviceFlags();
  options.template_args = absl::GetFlag(FLAGS_template_args);
  options.out = absl::GetFlag(FLAGS_prompts);
  options.count = absl::GetFlag(FLAGS_count);
  options.seed = absl::GetFlag(FLAGS_seed);
  options.max_new_tokens = absl::GetFlag(FLAGS_max_new_tokens);
  options.live = absl::GetFlag(FLAGS_live);
  RETURN_IF_ERROR(CheckGiven("prompts", options.out, "the file for the turns"));
  RETURN_IF_ERROR(CheckPositive("count", options.count));
  RETURN_IF_ERROR(CheckPositive("max_new_tokens", options.max_new_tokens));
  RETURN_IF_ERROR(CheckPositive("live", options.live));
  return options;
}

absl::StatusOr<TrainOptions> ReadTrainFlags(const std::string& kind) {
  TrainOptions options;
  options.kind = kind;
  options.target = absl::GetFlag(FLAGS_target);
  options.teacher = absl::GetFlag(FLAGS_teacher);
  options.out = absl::GetFlag(FLAGS_out);
  options.resume = absl::GetFlag(FLAGS_resume);
  options.save_every = absl::Minutes(absl::GetFlag(FLAGS_save_minutes));
  options.formats = nn::FormatFlags();
  options.device = nn::DeviceFlags();
  options.judged = {absl::GetFlag(FLAGS_prompts), absl::GetFlag(FLAGS_judge_prompts),
                    absl::GetFlag(FLAGS_judgements)};
  RETURN_IF_ERROR(
      CheckGiven("teacher", options.teacher, "the folder that bastion-train teach has written"));
  RETURN_IF_ERROR(CheckPositive("judgements", options.judged.judgements));
  RETURN_IF_ERROR(CheckPositive("judge_prompts", options.judged.limit));
  ASSIGN_OR_RETURN(options.learning, ReadLearningFlags());
  ASSIGN_OR_RETURN(options.shape, ReadShapeFlags());
  options.draft_vocabulary = absl::GetFlag(FLAGS_draft_vocabulary);
  if (options.draft_vocabulary < 0) {
    return absl::InvalidArgumentError("--draft_vocabulary must not be negative");
  }
  return options;
}

std::vector<FlagGroup> TrainFlagGroups() {
  return {
      {"All commands", {"target DIR", "out DIR"}},
      {"Commands turns, teach and KIND",
       {"prompts FILE", "minutes N", "seed N", "weights FORMAT", "dtype TYPE"}},
      {"Commands turns and teach", {"template_args JSON", "max_new_tokens N", "live N"}},
      {"Command turns", {"count N"}},
      {"Command teach", {"temperatures LIST"}},
      {"Command KIND",
       {"teacher DIR", "steps N", "resume", "save_minutes N", "texts N", "pool_bytes N",
        "pool_uses N", "map_rate RATE", "vector_rate RATE", "decay_from FRACTION", "clip NORM",
        "products TYPE", "judgements N", "judge_prompts N"}},
      {"The drafter of command KIND",
       {"layers N", "hidden N", "intermediate N", "block N", "feature_layers LIST", "mask_token ID",
        "draft_steps N", "draft_vocabulary N", "positions N"}},
      {"DFlash 2 drafters (command dflash2)", {"selector_rank N", "selector_weight NUMBER"}},
      {"SpecBlock drafters (command specblock)",
       {"blocks N", "block_positions same|path", "position_decay NUMBER", "block_mask one|carry",
        "rank_loss plain|ordinal", "rank_steps N", "no_shift", "no_prefix_broadcast",
        "no_prefix_mask"}},
      {"Command prior",
       {"continuations N", "pair_continuations N", "min_pair_count N", "max_entries N",
        "max_counted N"}},
      nn::DeviceFlagGroup(),
  };
}

}  // namespace bastion::train
