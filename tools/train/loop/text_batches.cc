#include "tools/train/loop/text_batches.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::train {
namespace {

constexpr int64_t kElementBytes = 2;  // bf16

int64_t RowsOf(const TeacherText& text) { return static_cast<int64_t>(text.tokens.size()); }

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
  auto batches = std::unique_ptr<TextBatches>(new TextBatches(target, options));
  batches->texts_ = std::move(texts);
  batches->SetLayers(features.layers);
  RETURN_IF_ERROR(batches->MakePool(given));
  features.max_texts = options.texts;
  features.max_tokens = 1;
  for (const TeacherText& text : batches->texts_) {
    features.max_tokens = std::max(features.max_tokens, static_cast<int>(RowsOf(text)));
  }
  ASSIGN_OR_RETURN(batches->features_, TargetFeatures::Create(features));
  return batches;
}

void TextBatches::SetLayers(std::vector<int>& layers) {
  const int64_t hidden = target_.config.dims.hidden;
  const int last = target_.config.dims.layers - 1;
  feature_width_ = hidden * static_cast<int64_t>(layers.size());
  const auto place = std::find(layers.begin(), layers.end(), last);
  last_layer_ = hidden * (place - layers.begin());
  if (place == layers.end()) layers.push_back(last);
  width_ = hidden * static_cast<int64_t>(layers.size());
}

absl::Status TextBatches::MakePool(size_t given) {
  const auto needed = 2 * static_cast<size_t>(options_.texts);
  if (texts_.size() < needed) {
    return absl::InvalidArgumentError(absl::StrCat(
        "only ", texts_.size(), " of ", given, " teacher texts have ", options_.min_written,
        " tokens or more after their prompt; steps of ", options_.texts, " texts (--texts) need ",
        needed, ", because no text is used in two steps in a row"));
  }
  std::vector<int64_t> rows;
  for (const TeacherText& text : texts_) rows.push_back(RowsOf(text));
  const int64_t row_bytes = width_ * kElementBytes;
  pool_size_ = PoolSize(rows, options_.pool_bytes / row_bytes);
  if (static_cast<size_t>(pool_size_) < needed) {
    std::sort(rows.rbegin(), rows.rend());
    int64_t bytes = 0;
    for (size_t i = 0; i < needed; ++i) bytes += rows[i] * row_bytes;
    return absl::InvalidArgumentError(
        absl::StrCat("--pool_bytes is ", options_.pool_bytes, "; steps of ", options_.texts,
                     " texts (--texts) need ", needed, " texts in the pool, which take up to ",
                     bytes, " bytes"));
  }
  pool_ = std::make_unique<TextPool>(TextPoolOptions{.texts = static_cast<int>(texts_.size()),
                                                     .size = pool_size_,
                                                     .batch = options_.texts,
                                                     .uses = options_.uses,
                                                     .seed = options_.seed});
  return absl::OkStatus();
}

absl::Status TextBatches::Read(const std::vector<int>& chosen) {
  std::vector<at::Tensor> outputs;
  std::vector<TextRows> rows;
  std::vector<int> missing;
  for (const int text : chosen) {
    if (held_.contains(text)) continue;
    missing.push_back(text);
    outputs.push_back(at::empty({RowsOf(texts_[text]), width_}, at::kFloat));
    rows.push_back({texts_[text].tokens, outputs.back().data_ptr<float>()});
  }
  if (missing.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(features_->Read(rows));
  for (size_t i = 0; i < missing.size(); ++i) held_[missing[i]] = outputs[i].to(at::kBFloat16);
  return absl::OkStatus();
}

absl::StatusOr<TextBatch> TextBatches::Next(int64_t step) {
  CHECK_GT(step, pool_->step());
  while (pool_->step() < step - 1) static_cast<void>(pool_->Next());
  const std::vector<int>& chosen = pool_->Next();
  RETURN_IF_ERROR(Read(chosen));
  TextBatch batch = Pad(chosen);
  for (const int text : chosen) {
    if (!pool_->Holds(text)) held_.erase(text);
  }
  return batch;
}

int64_t TextBatches::held_bytes() const {
  int64_t bytes = 0;
  for (const auto& [text, outputs] : held_) bytes += static_cast<int64_t>(outputs.nbytes());
  return bytes;
}

TextBatch TextBatches::Pad(const std::vector<int>& chosen) const {
  const auto count = static_cast<int64_t>(chosen.size());
  int64_t longest = 0;
  for (const int text : chosen) longest = std::max(longest, RowsOf(texts_[text]));
  const at::Tensor outputs = at::zeros({count, longest, width_}, at::kFloat);
  TextBatch batch;
  batch.tokens = at::zeros({count, longest}, at::kLong);
  batch.prompts = at::empty({count}, at::kLong);
  batch.lengths = at::empty({count}, at::kLong);
  for (int64_t b = 0; b < count; ++b) {
    const TeacherText& text = texts_[chosen[b]];
    std::copy(text.tokens.begin(), text.tokens.end(),
              batch.tokens.data_ptr<int64_t>() + b * longest);
    batch.prompts.data_ptr<int64_t>()[b] = text.prompt_tokens;
    batch.lengths.data_ptr<int64_t>()[b] = RowsOf(text);
    outputs[b].narrow(0, 0, RowsOf(text)).copy_(held_.at(chosen[b]));
  }
  batch.features = outputs.narrow(-1, 0, feature_width_);
  batch.head_input = target_.HeadInput(outputs.narrow(-1, last_layer_, target_.config.dims.hidden));
  return batch;
}

}  // namespace bastion::train
