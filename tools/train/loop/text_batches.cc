#include "tools/train/loop/text_batches.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion::train {
namespace {

// The pool has this many times as many texts as a step. Of similar length among them, a step draws
// from this many times as many.
constexpr int kPool = 4;
constexpr size_t kNeighbors = 2;

// New texts per step.
int FreshTexts(const BatchOptions& options) {
  return (options.texts + options.uses - 1) / options.uses;
}

// The number of steps that a text stays in the pool.
int64_t StepsInPool(const BatchOptions& options) {
  const int fresh = FreshTexts(options);
  return (kPool * options.texts + fresh - 1) / fresh;
}

}  // namespace

absl::StatusOr<std::unique_ptr<TextBatches>> TextBatches::Create(std::vector<TeacherText> texts,
                                                                 const FrozenTarget& target,
                                                                 TargetFeaturesOptions features,
                                                                 const BatchOptions& options) {
  const size_t given = texts.size();
  std::erase_if(texts, [&](TeacherText& text) {
    if (text.tokens.size() > static_cast<size_t>(options.max_tokens)) {
      text.tokens.resize(options.max_tokens);
    }
    return static_cast<int>(text.tokens.size()) - text.prompt_tokens < options.min_written;
  });
  if (texts.size() < static_cast<size_t>(options.texts)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "only ", texts.size(), " of ", given, " teacher texts have ", options.min_written,
        " tokens or more after their prompt; a step needs ", options.texts, " (--texts)"));
  }
  auto batches = std::unique_ptr<TextBatches>(new TextBatches(target, options));
  const int64_t hidden = target.config.dims.hidden;
  const int last = target.config.dims.layers - 1;
  batches->feature_width_ = hidden * static_cast<int64_t>(features.layers.size());
  const auto place = std::find(features.layers.begin(), features.layers.end(), last);
  batches->last_layer_ = hidden * (place - features.layers.begin());
  if (place == features.layers.end()) features.layers.push_back(last);
  features.max_texts = options.texts;
  features.max_tokens = 1;
  for (const TeacherText& text : texts) {
    features.max_tokens = std::max(features.max_tokens, static_cast<int>(text.tokens.size()));
  }
  batches->texts_ = std::move(texts);
  ASSIGN_OR_RETURN(batches->features_, TargetFeatures::Create(features));
  return batches;
}

absl::Status TextBatches::ReadNewTexts(int64_t step) {
  Draws draws(options_.seed, static_cast<uint64_t>(step));
  const int fresh = FreshTexts(options_);
  std::vector<TextRows> rows;
  for (int i = 0; i < fresh; ++i) {
    const TeacherText& text = texts_[draws.Below(static_cast<int64_t>(texts_.size()))];
    const auto tokens = static_cast<int64_t>(text.tokens.size());
    pool_.push_back({&text, at::empty({tokens, features_->width()}, at::kFloat)});
    rows.push_back({text.tokens, pool_.back().outputs.data_ptr<float>()});
  }
  while (pool_.size() > static_cast<size_t>(fresh * StepsInPool(options_))) pool_.pop_front();
  read_step_ = step;
  return features_->Read(rows);
}

absl::StatusOr<TextBatch> TextBatches::Next(int64_t step, Draws& draws) {
  // The first step of a run reads what the steps before it would have left.
  const int64_t stay = StepsInPool(options_);
  const bool follows = !pool_.empty() && read_step_ < step;
  const int64_t known = follows ? std::max(read_step_, step - stay) : step - stay;
  for (int64_t next = known + 1; next <= step; ++next) RETURN_IF_ERROR(ReadNewTexts(next));
  std::vector<const ReadText*> by_length;
  for (const ReadText& text : pool_) by_length.push_back(&text);
  std::stable_sort(by_length.begin(), by_length.end(), [](const ReadText* a, const ReadText* b) {
    return a->outputs.size(0) < b->outputs.size(0);
  });
  const size_t wanted = options_.texts;
  const size_t window = std::min(by_length.size(), kNeighbors * wanted);
  const size_t first = draws.Below(static_cast<int64_t>(by_length.size() - window + 1));
  for (size_t i = 0; i < wanted; ++i) {  // The first steps of a Fisher-Yates shuffle.
    const size_t other = i + draws.Below(static_cast<int64_t>(window - i));
    std::swap(by_length[first + i], by_length[first + other]);
  }
  return Pad({by_length.begin() + first, by_length.begin() + first + wanted});
}

TextBatch TextBatches::Pad(const std::vector<const ReadText*>& chosen) const {
  const auto count = static_cast<int64_t>(chosen.size());
  int64_t longest = 0;
  for (const ReadText* text : chosen) longest = std::max(longest, text->outputs.size(0));
  const at::Tensor outputs = at::zeros({count, longest, features_->width()}, at::kFloat);
  TextBatch batch;
  batch.tokens = at::zeros({count, longest}, at::kLong);
  batch.prompts = at::empty({count}, at::kLong);
  batch.lengths = at::empty({count}, at::kLong);
  for (int64_t b = 0; b < count; ++b) {
    const std::vector<TokenId>& tokens = chosen[b]->text->tokens;
    const auto length = static_cast<int64_t>(tokens.size());
    std::copy(tokens.begin(), tokens.end(), batch.tokens.data_ptr<int64_t>() + b * longest);
    batch.prompts.data_ptr<int64_t>()[b] = chosen[b]->text->prompt_tokens;
    batch.lengths.data_ptr<int64_t>()[b] = length;
    outputs[b].narrow(0, 0, length).copy_(chosen[b]->outputs);
  }
  batch.features = outputs.narrow(-1, 0, feature_width_);
  batch.head_input = target_.HeadInput(outputs.narrow(-1, last_layer_, target_.config.dims.hidden));
  return batch;
}

}  // namespace bastion::train
