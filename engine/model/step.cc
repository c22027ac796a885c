#include "engine/model/step.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/progress.h"
#include "common/base/status.h"

namespace bastion::nn {
namespace {

enum Kind { kHead, kForward };  // And those after kForward: forwards of other entries.

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> Step::Create(Decoder& decoder, const Vocabulary& vocabulary,
                                                   StepSizes sizes, std::vector<Entry> entries) {
  if (!decoder.device().records()) sizes.rows = sizes.wanted = {};
  auto step = std::unique_ptr<Step>(new Step(decoder, vocabulary, std::move(sizes)));
  ASSIGN_OR_RETURN(step->inputs_, StepInputs::Create(decoder.device(), decoder.capacity()));
  const int rows =
      step->sizes_.wanted.empty() ? decoder.capacity().rows : step->sizes_.wanted.back();
  ASSIGN_OR_RETURN(step->logits_, decoder.device().CreateLogits(rows, vocabulary.size()));
  step->taps_.type = decoder.options().formats.activations;
  step->entries_ = std::move(entries);
  if (step->entries_.empty()) {
    step->entries_.emplace_back([&decoder, &vocabulary](const kernels::Rows& rows) {
      decoder.activations().Embed(rows, vocabulary.table.data(), vocabulary.type);
    });
  }
  return step;
}

absl::Status Step::SetFeatureLayers(const std::vector<int>& layers, bool show_progress) {
  Device& device = decoder_.device();
  ready_ = false;
  RETURN_IF_ERROR(device.Finish());
  device.Forget(this);
  taps_.layers = layers;
  const size_t bytes = inputs_.capacity().rows * feature_row_bytes();
  ASSIGN_OR_RETURN(features_, device.Allocate(bytes, "features"));
  taps_.features = features_.data();
  std::optional<ProgressBar> bar;
  const auto entries = static_cast<int>(entries_.size());
  const int64_t count = entries * std::ssize(sizes_.rows) + std::ssize(sizes_.wanted);
  if (show_progress && count > 0) bar.emplace("tuning", "sizes");
  int64_t done = 0;
  const RowBatch empty;
  for (const int rows : sizes_.rows) {
    for (int entry = 0; entry < entries; ++entry) {
      inputs_.Send({empty}, rows);
      RETURN_IF_ERROR(RunForward(rows, entry));
      RETURN_IF_ERROR(device.Finish());
      if (bar.has_value()) bar->Show(++done, count);
    }
  }
  for (const int rows : sizes_.wanted) {
    RETURN_IF_ERROR(RunHead(rows));
    RETURN_IF_ERROR(device.Finish());
    if (bar.has_value()) bar->Show(++done, count);
  }
  ready_ = true;
  return absl::OkStatus();
}

absl::Status Step::Forward(const StepContents& contents, int entry) {
  if (!ready_) {
    return absl::InternalError(
        "the steps of this model could not be recorded; see the log for the reason");
  }
  const int rows = contents.batch.rows();
  const int limit = sizes_.rows.empty() ? inputs_.capacity().rows : sizes_.rows.back();
  if (rows > limit) {
    return absl::InvalidArgumentError(
        absl::StrCat(rows, " rows in one step; the limit is ", limit));
  }
  wanted_rows_ = contents.wanted_rows();
  const int padded = PaddedRows(rows);
  inputs_.Send(contents, padded);
  return RunForward(padded, entry);
}

absl::Status Step::Head() { return RunHead(PaddedWanted(wanted_rows_)); }

absl::Status Step::RunForward(int rows, int entry) {
  return decoder_.device().Run({this, kForward + entry, rows}, [&] {
    const kernels::Rows in = inputs_.Rows(rows);
    entries_[entry](in);
    decoder_.Forward(in, taps_);
  });
}

absl::Status Step::RunHead(int rows) {
  return decoder_.device().Run({this, kHead, rows}, [&] {
    decoder_.activations().Head(vocabulary_.head, sizes_.gathers ? inputs_.wanted() : nullptr, rows,
                                *logits_);
  });
}

ForwardCost Step::Cost() const {
  ForwardCost cost = decoder_.Cost();
  cost.Add(vocabulary_.head);
  return cost;
}

}  // namespace bastion::nn
