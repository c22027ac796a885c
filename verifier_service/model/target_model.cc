#include "verifier_service/model/target_model.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "engine/model/causal_model.h"
#include "engine/model/row_buckets.h"
#include "engine/model/step.h"
#include "verifier_service/features/shared_features.h"
#include "verifier_service/verify/logit_edits.h"

namespace bastion::verifier {
namespace {

using kernels::WalkResult;
using Outcomes = std::vector<absl::StatusOr<Acceptance>>;  // One per tree.

class TargetModel final : public Target {
 public:
  static absl::StatusOr<std::unique_ptr<TargetModel>> Load(const std::string& folder,
                                                           const nn::EngineOptions& options);

  void WakeUp() override { device().Wake(); }
  absl::Status SetFeatureLayers(const std::vector<int>& layers) override;
  absl::StatusOr<Outcomes> Verify(const nn::RowBatch& batch, absl::Span<const TreeRows> trees,
                                  TimingTrace& trace) override;
  absl::Span<const char> KeptFeatures(int index) const override {
    const size_t row = step_->feature_row_bytes();
    return {kept_features_.as<char>() + kept_begins_[index] * row,
            (kept_begins_[index + 1] - kept_begins_[index]) * row};
  }
  DType feature_type() const override { return step_->feature_type(); }
  std::shared_ptr<const wire::DeviceRingWriter> feature_ring() const override {
    return shared_.writer();
  }
  std::optional<uint64_t> KeptRingPosition(int index) const override {
    const auto begin = shared_.position();
    if (!begin) return std::nullopt;
    return *begin + kept_begins_[index] * step_->feature_row_bytes();
  }
  absl::StatusOr<PlainStep> DecodeOne(const nn::RowBatch& batch, const TreeRows& root) override;

  nn::PagePool& pages() override { return model_.decoder->cache(); }
  const hub::ModelConfig& config() const override { return model_.decoder->config(); }
  nn::ForwardCost Cost() const override { return model_.Cost(); }
  nn::Device& device() const override { return model_.decoder->device(); }
  DevicePeaks MeasurePeaks() override { return device().MeasurePeaks(model_.vocabulary.head); }

 private:
  enum Kind { kDecision, kCommit };
  enum Flag { kAccepted, kCommitted, kShared, kFlags };

  explicit TargetModel(nn::CausalModel model) : model_(std::move(model)) {}

  [[nodiscard]] absl::Status Allocate();
  void Share(int64_t bytes);
  // Run or record the operations for `rows` rows.
  [[nodiscard]] absl::Status Decide(int rows);
  [[nodiscard]] absl::Status Commit(int rows);
  [[nodiscard]] nn::CommitArgs CommitArgsOf(void* kept) const;
  // Runs the forward over all rows, and the choices and the acceptance walk over `trees`. Returns
  // when the accepted tokens are in host memory.
  [[nodiscard]] absl::Status RunStep(const nn::RowBatch& batch, absl::Span<const TreeRows> trees,
                                     TimingTrace& trace);
  // Copies the features kept by the last commit to the shared memory, if there is room for
  // `max_kept` rows.
  void ShareKept(int rows, int max_kept);
  [[nodiscard]] absl::StatusOr<Acceptance> ReadTree(int index, int first_row) const;
  // Adds the log-probabilities that requests ask for: those of the unedited logits.
  void AddLogprobs(absl::Span<const TreeRows> trees, Outcomes& outcomes);
  void UpdateKeptBegins(const nn::RowBatch& batch, absl::Span<const TreeRows> trees);
  // Waits until the features of the accepted rows and of the prompts' rows are in host memory.
  [[nodiscard]] absl::Status KeepFeatures(const nn::RowBatch& batch,
                                          absl::Span<const TreeRows> trees);
  // Copies the features of rows [first, first + rows) to the kept ones, after `kept` rows.
  void KeepAlso(int first, int rows, int kept);
  [[nodiscard]] const WalkResult& walked(int index) const {
    return results_.host.as<WalkResult>()[index];
  }
  [[nodiscard]] uint64_t* flag(Flag flag) const { return flags_.as<uint64_t>() + flag; }

  nn::CausalModel model_;
  std::unique_ptr<nn::Step> step_;
  nn::Buffer choices_;                    // [R]
  nn::Device::Mirrored paths_, results_;  // [R], [B]
  nn::Buffer flags_;                      // [kFlags], host memory
  nn::Buffer kept_features_;              // [R, F], host memory
  SharedFeatures shared_;                 // A second copy, for processes on this device.
  char* in_shared_ = nullptr;  // Where this step's features begin there; null: not there.
  // [spans + 1] Span i keeps rows kept_begins_[i] to kept_begins_[i + 1] − 1 of kept_features_.
  std::vector<int> kept_begins_ = {0};
};

absl::StatusOr<std::unique_ptr<TargetModel>> TargetModel::Load(const std::string& folder,
                                                               const nn::EngineOptions& options) {
  CHECK(options.head_tokens == nullptr) << "a target must have logits for all tokens";
  nn::PackingPlan plan;
  ASSIGN_OR_RETURN(nn::CausalModel loaded, nn::LoadCausalModel(folder, options, plan));
  RETURN_IF_ERROR(plan.Run(folder, options));
  auto target = std::unique_ptr<TargetModel>(new TargetModel(std::move(loaded)));
  const std::vector<int> sizes = nn::TreeRowBuckets(target->model_.decoder->capacity().rows);
  ASSIGN_OR_RETURN(target->step_, nn::Step::Create(*target->model_.decoder,
                                                   target->model_.vocabulary, {sizes, sizes}));
  RETURN_IF_ERROR(target->Allocate());
  target->Share(options.share_bytes);
  RETURN_IF_ERROR(target->SetFeatureLayers({}));
  return target;
}

absl::Status TargetModel::Allocate() {
  const nn::StepCapacity& capacity = model_.decoder->capacity();
  constexpr char kWhat[] = "a step's results";
  ASSIGN_OR_RETURN(choices_, device().Allocate(capacity.rows * sizeof(int32_t), kWhat));
  ASSIGN_OR_RETURN(paths_, device().AllocateMirrored(capacity.rows * sizeof(int32_t), kWhat));
  ASSIGN_OR_RETURN(results_, device().AllocateMirrored(capacity.spans * sizeof(WalkResult), kWhat));
  ASSIGN_OR_RETURN(flags_, device().AllocateOnHost(kFlags * sizeof(uint64_t), kWhat));
  return absl::OkStatus();
}

void TargetModel::Share(int64_t bytes) {
  if (bytes <= 0 || device().on_host()) return;
  auto shared =
      SharedFeatures::Create(device(), bytes, model_.decoder->options().formats.activations);
  if (shared.ok()) {
    shared_ = *std::move(shared);
  } else {
    LOG(WARNING) << "features are copied to drafters through host memory: " << shared.status();
  }
}

absl::Status TargetModel::SetFeatureLayers(const std::vector<int>& layers) {
  RETURN_IF_ERROR(device().Finish());
  device().Forget(this);
  RETURN_IF_ERROR(step_->SetFeatureLayers(layers, model_.decoder->options().show_progress));
  const size_t bytes = model_.decoder->capacity().rows * step_->feature_row_bytes();
  ASSIGN_OR_RETURN(kept_features_, device().AllocateOnHost(bytes, "features"));
  for (const int rows : step_->sizes().wanted) {
    RETURN_IF_ERROR(Decide(rows));
    RETURN_IF_ERROR(Commit(rows));
  }
  return device().Finish();
}

absl::Status TargetModel::Decide(int rows) {
  return device().Run({this, kDecision, rows}, [&] {
    const nn::StepInputs& in = step_->inputs();
    step_->logits().Choose({rows, in.wanted_used(), in.rules(), choices_.as<int32_t>()});
    device().Walk(in.WalkedRows(rows), CommitArgsOf(nullptr).walk);
    device().Raise(in.device_step(), flag(kAccepted));
  });
}

absl::Status TargetModel::Commit(int rows) {
  return device().Run({this, kCommit, rows}, [&] {
    const nn::StepInputs& in = step_->inputs();
    device().Commit(in.WalkedRows(rows), CommitArgsOf(kept_features_.data()));
    device().Raise(in.device_step(), flag(kCommitted));
  });
}

nn::CommitArgs TargetModel::CommitArgsOf(void* kept) const {
  nn::CommitArgs args;
  args.walk = {choices_.as<int32_t>(), results_.device.as<WalkResult>(),
               paths_.device.as<int32_t>(), results_.host.as<WalkResult>(),
               paths_.host.as<int32_t>()};
  args.cache = &model_.decoder->cache();
  args.features = step_->features();
  args.kept = kept;
  args.feature_width = step_->feature_width();
  args.type = step_->feature_type();
  return args;
}

std::vector<int32_t> ParentsOf(absl::Span<const TreeRows> trees) {
  std::vector<int32_t> parents;
  parents.reserve(RowCount(trees));
  for (const TreeRows& rows : trees) {
    for (NodeIndex node = 0; node < rows.tree->rows(); ++node) {
      parents.push_back(rows.tree->parent(node).value());
    }
  }
  return parents;
}

// The maximum number of rows that the walks can keep: the root and the longest path of each tree.
int MaxKept(absl::Span<const TreeRows> trees) {
  int rows_kept = 0;
  for (const TreeRows& rows : trees) {
    int depth = 0;
    for (NodeIndex node = 0; node < rows.tree->rows(); ++node) {
      depth = std::max(depth, rows.tree->depth(node));
    }
    rows_kept += 1 + depth;
  }
  return rows_kept;
}

absl::Status TargetModel::RunStep(const nn::RowBatch& batch, absl::Span<const TreeRows> trees,
                                  TimingTrace& trace) {
  StopWatch watch;
  const int tree_rows = RowCount(trees);
  const std::vector<int32_t> parents = ParentsOf(trees);
  const std::vector<kernels::ChoiceRule> rules = RulesOf(trees, tree_rows);
  device().ForgetMarks();
  const int begin = device().Mark();
  RETURN_IF_ERROR(step_->Forward({.batch = batch, .parents = parents, .rules = rules}));
  if (tree_rows > 0) {
    RETURN_IF_ERROR(step_->Head());
  }
  const int forwarded = device().Mark();
  if (tree_rows > 0) {
    RETURN_IF_ERROR(step_->logits().Edit(EditsOf(trees)));
    RETURN_IF_ERROR(Decide(step_->PaddedWanted(tree_rows)));
    RETURN_IF_ERROR(device().Await(flag(kAccepted), step_->inputs().step()));
  } else {
    RETURN_IF_ERROR(device().Finish());
  }
  const absl::Duration elapsed = watch.Lap();
  ASSIGN_OR_RETURN(const double forward, device().Seconds(begin, forwarded));
  trace.forward = std::min(absl::Seconds(forward), elapsed);
  trace.accept = elapsed - trace.forward;
  trace.experts = step_->touched_experts();
  return absl::OkStatus();
}

absl::StatusOr<Acceptance> TargetModel::ReadTree(int index, int first_row) const {
  const WalkResult& result = walked(index);
  if (result.path_length < 0) return NanLogits();
  const int32_t* const path = paths_.host.as<int32_t>() + first_row;
  Acceptance acceptance;
  for (int i = 0; i < result.path_length; ++i) acceptance.path.push_back(NodeIndex::Of(path[i]));
  acceptance.next = result.next;
  return acceptance;
}

void TargetModel::AddLogprobs(absl::Span<const TreeRows> trees, Outcomes& outcomes) {
  std::vector<nn::Logits::Scored> scored;
  const auto wants = [&](size_t i) { return outcomes[i].ok() && trees[i].sampling->logprobs; };
  for (size_t i = 0; i < trees.size(); ++i) {
    if (!wants(i)) continue;
    const auto rows = ScoredRows(trees[i], *outcomes[i]);
    scored.insert(scored.end(), rows.begin(), rows.end());
  }
  if (scored.empty()) return;
  step_->logits().Restore();
  auto results = step_->logits().Score(scored);
  size_t next = 0;
  for (size_t i = 0; i < trees.size(); ++i) {
    if (!wants(i)) continue;
    if (!results.ok()) {
      outcomes[i] = results.status();
      continue;
    }
    for (int k = 0; k < outcomes[i]->committed_length(); ++k) {
      outcomes[i]->logprobs.push_back(std::move((*results)[next++]));
    }
  }
}

void TargetModel::UpdateKeptBegins(const nn::RowBatch& batch, absl::Span<const TreeRows> trees) {
  kept_begins_.resize(1);
  for (size_t i = 0; i < batch.spans().size(); ++i) {
    const int kept =
        i < trees.size() ? 1 + walked(static_cast<int>(i)).path_length : batch.spans()[i].rows;
    kept_begins_.push_back(kept_begins_.back() + kept);
  }
}

void TargetModel::ShareKept(int rows, int max_kept) {
  in_shared_ = shared_.Reserve(max_kept * step_->feature_row_bytes());
  if (in_shared_ == nullptr) return;
  nn::CommitArgs gather = CommitArgsOf(in_shared_);
  gather.cache = nullptr;  // Only the features.
  device().Commit(step_->inputs().WalkedRows(rows), gather);
  device().Raise(step_->inputs().device_step(), flag(kShared));
}

void TargetModel::KeepAlso(int first, int rows, int kept) {
  const size_t row = step_->feature_row_bytes();
  const char* const from = static_cast<const char*>(step_->features()) + first * row;
  for (char* const to : {kept_features_.as<char>(), in_shared_}) {
    if (row > 0 && to != nullptr) device().Copy(to + kept * row, from, rows * row);
  }
}

absl::Status TargetModel::KeepFeatures(const nn::RowBatch& batch,
                                       absl::Span<const TreeRows> trees) {
  const int tree_rows = RowCount(trees), prompt_rows = batch.rows() - tree_rows;
  if (tree_rows == 0) in_shared_ = shared_.Reserve(prompt_rows * step_->feature_row_bytes());
  if (prompt_rows > 0) {
    KeepAlso(tree_rows, prompt_rows, kept_begins_[trees.size()]);
    RETURN_IF_ERROR(device().Finish());
  } else {
    RETURN_IF_ERROR(
        device().Await(flag(shared_.reserved() ? kShared : kCommitted), step_->inputs().step()));
  }
  if (shared_.reserved()) shared_.Publish(kept_begins_.back() * step_->feature_row_bytes());
  return absl::OkStatus();
}

absl::StatusOr<Outcomes> TargetModel::Verify(const nn::RowBatch& batch,
                                             absl::Span<const TreeRows> trees, TimingTrace& trace) {
  RETURN_IF_ERROR(RunStep(batch, trees, trace));
  StopWatch watch;
  if (!trees.empty()) {
    const int rows = step_->PaddedWanted(RowCount(trees));
    RETURN_IF_ERROR(Commit(rows));
    ShareKept(rows, MaxKept(trees) + batch.rows() - RowCount(trees));
  }
  device().Rest();
  Outcomes outcomes;
  outcomes.reserve(trees.size());
  for (size_t i = 0; i < trees.size(); ++i) {
    outcomes.push_back(ReadTree(static_cast<int>(i), trees[i].first_row));
  }
  AddLogprobs(trees, outcomes);
  UpdateKeptBegins(batch, trees);
  RETURN_IF_ERROR(KeepFeatures(batch, trees));
  trace.commit = watch.Lap();
  return outcomes;
}

absl::StatusOr<PlainStep> TargetModel::DecodeOne(const nn::RowBatch& batch, const TreeRows& root) {
  TimingTrace unused;
  RETURN_IF_ERROR(RunStep(batch, {root}, unused));
  step_->logits().Restore();
  device().Rest();
  const TokenId choice = walked(0).path_length < 0 ? -1 : walked(0).next;
  ASSIGN_OR_RETURN(float* const logits, step_->logits().Row(0));
  return PlainStep{choice, logits};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Target>> LoadTarget(const std::string& folder,
                                                   const nn::EngineOptions& options) {
  return TargetModel::Load(folder, options);
}

}  // namespace bastion::verifier
