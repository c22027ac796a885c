#include "drafter_service/draft/medusa.h"

#include <algorithm>
#include <numeric>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "drafter_service/draft/draft_model.h"
#include "engine/model/row_buckets.h"
#include "kernels/ops/pack.h"

namespace bastion::drafter {
namespace {

constexpr char kPrefix[] = "medusa_head.";
constexpr int kMaxHeads = 64, kMaxBlocks = 64;

struct MedusaPair {
  hub::ModelConfig drafter, target;
  std::shared_ptr<const hub::Checkpoint> checkpoint, target_checkpoint;
  std::string prefix;  // Before the number of a head.

  [[nodiscard]] std::string Head(int head) const { return absl::StrCat(prefix, head, "."); }
};

// The names of the tensors of one head, without suffixes.
struct HeadNames {
  std::vector<std::string> blocks;
  std::string matrix;  // Empty: the target's LM head.
};

absl::StatusOr<MedusaPair> ReadMedusaPair(const std::string& drafter_folder,
                                          const std::string& target_folder) {
  MedusaPair pair;
  ASSIGN_OR_RETURN(pair.drafter, hub::ReadModelConfig(drafter_folder));
  ASSIGN_OR_RETURN(pair.target, hub::ReadModelConfig(target_folder));
  ASSIGN_OR_RETURN(pair.checkpoint, hub::Checkpoint::Open(drafter_folder));
  ASSIGN_OR_RETURN(pair.target_checkpoint, hub::Checkpoint::Open(target_folder));
  for (const std::string& name : pair.checkpoint->TensorNames()) {
    if (absl::StartsWith(name, kPrefix)) pair.prefix = kPrefix;
  }
  const ModelDims &own = pair.drafter.dims, &target = pair.target.dims;
  if (own.hidden > 0 && own.hidden != target.hidden) {
    return OtherTarget(drafter_folder, "hidden width", own.hidden, target.hidden);
  }
  if (own.vocabulary > 0 && own.vocabulary != target.vocabulary) {
    return OtherTarget(drafter_folder, "vocabulary", own.vocabulary, target.vocabulary);
  }
  return pair;
}

// The number of a head's matrix is that of its blocks. A block that is missing is the one before
// it: the authors' code makes one block and lists it several times, and a file has it once.
HeadNames NamesOf(const MedusaPair& pair, int head) {
  const auto has = [&](const std::string& name) { return pair.checkpoint->Has(name + ".weight"); };
  HeadNames names;
  int blocks = 0;
  for (int j = 0; j <= kMaxBlocks && names.matrix.empty(); ++j) {
    const std::string name = absl::StrCat(pair.Head(head), j);
    if (has(name + ".linear")) blocks = j + 1;
    if (has(name)) names.matrix = name, blocks = j;
  }
  for (int j = 0; j < blocks; ++j) {
    const std::string name = absl::StrCat(pair.Head(head), j, ".linear");
    names.blocks.push_back(has(name) || j == 0 ? name : names.blocks.back());
  }
  return names;
}

// INVALID_ARGUMENT if the rows of a tensor do not match the target.
absl::Status CheckRows(const MedusaPair& pair, const std::string& name, const char* what,
                       int expected) {
  ASSIGN_OR_RETURN(const hub::TensorView view, pair.checkpoint->Find(name + ".weight"));
  const int rows = view.shape.empty() ? 0 : static_cast<int>(view.shape[0]);
  if (rows == expected) return absl::OkStatus();
  return OtherTarget(pair.checkpoint->folder(), what, rows, expected);
}

class HeadLoader {
 public:
  HeadLoader(const MedusaPair& pair, const nn::EngineOptions& options, nn::PackingPlan& plan)
      : pair_(pair),
        chosen_(options.head_tokens.get()),
        own_(*options.device, pair.checkpoint, options.formats, plan),
        target_(*options.device, pair.target_checkpoint, options.formats, plan) {}

  absl::StatusOr<MedusaHead> Load(int number) {
    const ModelDims& dims = pair_.target.dims;
    const HeadNames names = NamesOf(pair_, number);
    MedusaHead head;
    for (size_t j = 0; j < names.blocks.size(); ++j) {
      if (j > 0 && names.blocks[j] == names.blocks[j - 1]) {
        head.blocks.push_back(head.blocks.back());
        continue;
      }
      RETURN_IF_ERROR(CheckRows(pair_, names.blocks[j], "hidden width", dims.hidden));
      ASSIGN_OR_RETURN(head.blocks.emplace_back(),
                       own_.WithBias({nn::AllRows(names.blocks[j], dims.hidden)}, dims.hidden,
                                     /*bias=*/true));
    }
    if (names.matrix.empty()) {
      ASSIGN_OR_RETURN(head.matrix, TargetHead());
      return head;
    }
    RETURN_IF_ERROR(CheckRows(pair_, names.matrix, "vocabulary", dims.vocabulary));
    ASSIGN_OR_RETURN(head.matrix, HeadOf(own_, names.matrix + ".weight"));
    return head;
  }

  [[nodiscard]] absl::StatusOr<nn::Norm> FinalNorm() const {
    return target_.LoadNorm(pair_.target.names.final_norm, pair_.target);
  }
  [[nodiscard]] absl::StatusOr<nn::Buffer> Ids() const {
    if (chosen_ == nullptr) return nn::Buffer();
    return nn::IdsOn(own_.device(), *chosen_);
  }

 private:
  [[nodiscard]] absl::StatusOr<nn::Matrix> HeadOf(const nn::WeightLoader& loader,
                                                  const std::string& name) const {
    const ModelDims& dims = pair_.target.dims;
    if (chosen_ == nullptr) {
      return loader.Stacked({nn::AllRows(name, dims.vocabulary)}, dims.hidden);
    }
    return loader.Stacked(nn::ChosenRows(name, dims.vocabulary, *chosen_), dims.hidden);
  }
  // The target's LM head, once for all heads.
  absl::StatusOr<nn::Matrix> TargetHead() {
    const hub::ModelConfig& target = pair_.target;
    if (target_head_.empty()) {
      const std::string& name =
          target.tie_word_embeddings ? target.names.embedding : target.names.head;
      ASSIGN_OR_RETURN(target_head_, HeadOf(target_, name + ".weight"));
    }
    return target_head_;
  }

  const MedusaPair& pair_;
  const std::vector<TokenId>* const chosen_;
  const nn::WeightLoader own_, target_;
  nn::Matrix target_head_;
};

// The matrices are empty until `plan` has run.
absl::StatusOr<MedusaWeights> ReadWeights(const MedusaPair& pair, const nn::EngineOptions& options,
                                          nn::PackingPlan& plan) {
  MedusaWeights weights;
  HeadLoader loader(pair, options, plan);
  for (int head = 0; head < kMaxHeads && !NamesOf(pair, head).blocks.empty(); ++head) {
    ASSIGN_OR_RETURN(weights.heads.emplace_back(), loader.Load(head));
  }
  if (weights.heads.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(pair.checkpoint->folder(),
                                                   ": there is no Medusa head: no tensor '",
                                                   pair.Head(0), "0.linear.weight'"));
  }
  ASSIGN_OR_RETURN(weights.final_norm, loader.FinalNorm());
  ASSIGN_OR_RETURN(weights.ids, loader.Ids());
  RETURN_IF_ERROR(hub::CheckAllRead(*pair.checkpoint, pair.drafter.names, /*tied=*/false));
  const auto positions = static_cast<int>(weights.heads.size());
  hub::ModelConfig& config = weights.config = pair.drafter;
  config.dims = pair.target.dims;
  config.max_positions = pair.target.max_positions + positions;
  weights.feature_layers = {pair.target.dims.layers - 1};
  return weights;
}

// The config for the operations that the heads use: those on rows of C elements.
hub::ModelConfig OperationsConfig(const MedusaWeights& weights) {
  hub::ModelConfig config;
  config.dims = weights.config.dims;
  config.dims.layers = 0;
  config.dims.intermediate = config.dims.hidden;
  return config;
}

nn::ForwardCost CostOf(const MedusaWeights& weights) {
  nn::ForwardCost cost;
  for (const MedusaHead& head : weights.heads) {
    for (const nn::Matrix& block : head.blocks) cost.Add(block);
    cost.Add(head.matrix);
  }
  return cost;
}

}  // namespace

absl::StatusOr<CheckedDrafter> CheckMedusa(const std::string& drafter_folder,
                                           const std::string& target_folder,
                                           const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(const MedusaPair pair, ReadMedusaPair(drafter_folder, target_folder));
  nn::PackingPlan plan;  // Never run: no matrix is packed.
  ASSIGN_OR_RETURN(const MedusaWeights weights, ReadWeights(pair, options, plan));
  const auto positions = static_cast<int>(weights.heads.size());
  return CheckedDrafter{weights.config, CostOf(weights), pair.target.dims,
                        positions,      positions,       pair.target.dims.hidden};
}

absl::StatusOr<std::unique_ptr<MedusaModel>> MedusaModel::Load(const std::string& drafter_folder,
                                                               const std::string& target_folder,
                                                               const nn::EngineOptions& options) {
  ASSIGN_OR_RETURN(const MedusaPair pair, ReadMedusaPair(drafter_folder, target_folder));
  nn::PackingPlan plan;
  ASSIGN_OR_RETURN(MedusaWeights weights, ReadWeights(pair, options, plan));
  RETURN_IF_ERROR(plan.Run(drafter_folder, options));
  auto model = std::unique_ptr<MedusaModel>(new MedusaModel(std::move(weights), options));
  RETURN_IF_ERROR(model->Prepare());
  return model;
}

nn::ForwardCost MedusaModel::Cost() const { return CostOf(weights_); }

absl::Status MedusaModel::Prepare() {
  constexpr char kWhat[] = "the inputs of Medusa heads";
  constexpr int kWord = 64;  // StepCapacity::rows is a multiple of it.
  const int limit = options_.max_sequences, width = config().dims.hidden;
  const int rows = (limit + kWord - 1) / kWord * kWord;
  ASSIGN_OR_RETURN(activations_,
                   device().CreateActivations(OperationsConfig(weights_), options_,
                                              {.rows = rows, .spans = 1, .pages = 1, .tokens = 1}));
  for (int i = 0; i < positions(); ++i) {
    ASSIGN_OR_RETURN(logits_.emplace_back(),
                     device().CreateLogits(limit, weights_.heads[i].matrix.rows));
  }
  ASSIGN_OR_RETURN(features_,
                   device().AllocateMirrored(Bytes(type(), int64_t{limit} * width), kWhat));
  ASSIGN_OR_RETURN(rules_,
                   device().AllocateMirrored(max_rows() * sizeof(kernels::ChoiceRule), kWhat));
  ASSIGN_OR_RETURN(used_, device().AllocateMirrored(sizeof(int32_t), kWhat));
  ASSIGN_OR_RETURN(numbers_, device().Allocate(limit * sizeof(int32_t), kWhat));
  std::vector<int32_t> numbers(limit);
  std::iota(numbers.begin(), numbers.end(), 0);
  device().Copy(numbers_.data(), numbers.data(), limit * sizeof(int32_t));
  RETURN_IF_ERROR(device().Finish());
  if (device().records()) sizes_ = nn::RowBuckets(limit);
  for (const int roots : sizes_) {
    RETURN_IF_ERROR(RunHeads(roots));
    RETURN_IF_ERROR(device().Finish());
  }
  return absl::OkStatus();
}

absl::Status MedusaModel::RunHeads(int roots) {
  return device().Run({this, 0, roots}, [&] {
    kernels::Rows rows;
    rows.used = used_.device.as<int32_t>();
    rows.tokens = numbers_.as<int32_t>();
    rows.row_capacity = roots;
    nn::Activations& x = *activations_;
    x.Embed(rows, features_.device.data(), type());
    for (int i = 0; i < positions(); ++i) {
      x.Normalize(rows, weights_.final_norm, {});
      for (const nn::Matrix& block : weights_.heads[i].blocks) x.AddSilu(rows, block);
      x.Head(weights_.heads[i].matrix, /*wanted=*/nullptr, roots, *logits_[i]);
    }
  });
}

absl::StatusOr<int> MedusaModel::StageFeatures(const NodeRows& rows) {
  const int width = config().dims.hidden;
  int roots = 0;
  for (const TokenFeatures& root : rows.features) {
    const Features& features = root.features;
    if (features.width != width || features.on_device()) {
      return absl::InvalidArgumentError(absl::StrCat("features have width ", features.width,
                                                     "; this drafter needs ", width, " as bytes"));
    }
    CHECK_LE(roots + features.rows(), options_.max_sequences);
    kernels::ConvertElements(features.type, features.bytes.data(), int64_t{features.rows()} * width,
                             type(),
                             features_.host.as<char>() + Bytes(type(), int64_t{roots} * width));
    roots += features.rows();
  }
  device().Copy(features_.device.data(), features_.host.data(),
                Bytes(type(), int64_t{roots} * width));
  return roots;
}

absl::StatusOr<std::vector<Marginals>> MedusaModel::Rank(int roots, int rows, int candidates) {
  const int count = std::min(candidates, logits_[0]->max_candidates());
  const size_t share = static_cast<size_t>(rows) * count, needed = share * positions();
  if (needed > ranked_) {
    constexpr char kWhat[] = "a draft's candidates";
    RETURN_IF_ERROR(device().Finish());
    ASSIGN_OR_RETURN(tokens_, device().AllocateOnHost(needed * sizeof(TokenId), kWhat));
    ASSIGN_OR_RETURN(log_probs_, device().AllocateOnHost(needed * sizeof(float), kWhat));
    ranked_ = needed;
  }
  for (int i = 0; i < positions(); ++i) {
    logits_[i]->Rank({rows, used_.device.as<int32_t>(),
                      rules_.device.as<kernels::ChoiceRule>() + int64_t{i} * rows, count,
                      tokens_.as<TokenId>() + i * share, log_probs_.as<float>() + i * share,
                      weights_.ids.as<TokenId>()});
  }
  RETURN_IF_ERROR(device().Finish());
  std::vector<Marginals> all(roots);
  for (int root = 0; root < roots; ++root) {
    Marginals& marginals = all[root];
    marginals.positions = positions();
    marginals.candidates = count;
    for (int i = 0; i < positions(); ++i) {
      const size_t at = i * share + static_cast<size_t>(root) * count;
      const TokenId* const tokens = tokens_.as<TokenId>() + at;
      const float* const log_probs = log_probs_.as<float>() + at;
      marginals.tokens.insert(marginals.tokens.end(), tokens, tokens + count);
      marginals.log_probs.insert(marginals.log_probs.end(), log_probs, log_probs + count);
    }
  }
  return all;
}

absl::StatusOr<std::vector<Marginals>> MedusaModel::Predict(
    const NodeRows& rows, absl::Span<const int> wanted,
    absl::Span<const kernels::ChoiceRule> coupling, int candidates) {
  ASSIGN_OR_RETURN(const int roots, StageFeatures(rows));
  CHECK_EQ(wanted.size(), static_cast<size_t>(roots) * positions()) << "all roots are wanted";
  const int padded = nn::BucketOf(sizes_, roots);
  auto* const rules = rules_.host.as<kernels::ChoiceRule>();
  for (int i = 0; i < positions(); ++i) {
    for (int root = 0; root < padded; ++root) {
      rules[i * padded + root] =
          root < roots ? coupling[root * positions() + i] : kernels::ChoiceRule();
    }
  }
  *used_.host.as<int32_t>() = roots;
  device().Copy(rules_.device.data(), rules,
                int64_t{padded} * positions() * sizeof(kernels::ChoiceRule));
  device().Copy(used_.device.data(), used_.host.data(), sizeof(int32_t));
  RETURN_IF_ERROR(RunHeads(padded));
  StopWatch watch;
  auto marginals = Rank(roots, padded, candidates);
  candidates_time_ = device().on_host() ? watch.Lap() : absl::ZeroDuration();
  device().Rest();
  return marginals;
}

}  // namespace bastion::drafter
