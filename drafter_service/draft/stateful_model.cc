#include "drafter_service/draft/stateful_model.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/status.h"
#include "engine/model/row_buckets.h"
#include "kernels/ops/pack.h"

namespace bastion::drafter {
namespace {

enum EntryKind { kFromFeatures, kFromStates };

}  // namespace

absl::Status StatefulModel::Prepare() {
  const int rows = max_rows();
  input_type_ = device().input_type(state_type());
  const size_t feature_bytes = Bytes(input_type_, int64_t{rows} * weights_.feature_width);
  ASSIGN_OR_RETURN(features_, device().AllocateMirrored(feature_bytes, "features of new context"));
  const size_t bytes = rows * state_bytes();
  if (bytes > 0) {
    ASSIGN_OR_RETURN(states_in_, device().AllocateMirrored(bytes, "states of drafted nodes"));
    ASSIGN_OR_RETURN(states_out_, device().AllocateOnHost(bytes, "states of drafted nodes"));
  }
  std::vector<int32_t> numbers(rows);
  std::iota(numbers.begin(), numbers.end(), 0);
  ASSIGN_OR_RETURN(row_numbers_, device().Allocate(rows * sizeof(int32_t), "row numbers"));
  device().Copy(row_numbers_.data(), numbers.data(), rows * sizeof(int32_t));
  RETURN_IF_ERROR(device().Finish());
  const int group = rows_per_token();
  std::vector<int> sizes;
  for (const int tokens : nn::RowBuckets(rows / group)) sizes.push_back(tokens * group);
  std::vector<nn::Entry> entries = {[this](const kernels::Rows& in) { Enter(in, true); }};
  std::vector<int> state_layers;
  if (state_bytes() > 0) {
    entries.emplace_back([this](const kernels::Rows& in) { Enter(in, false); });
    state_layers = {config().dims.layers - 1};
  }
  ASSIGN_OR_RETURN(step_, nn::Step::Create(*weights_.decoder, weights_.vocabulary,
                                           {sizes, sizes, /*gathers=*/true}, std::move(entries)));
  return step_->SetFeatureLayers(state_layers, weights_.decoder->options().show_progress);
}

char* StatefulModel::Stage(const void* values, DType type, char* to) const {
  const int width = weights_.feature_width;
  if (edits_features()) {
    std::vector<float> edited(width);
    kernels::ConvertElements(type, values, width, DType::kF32, edited.data());
    EditFeatures(edited.data());
    kernels::ConvertElements(DType::kF32, edited.data(), width, input_type_, to);
  } else {
    kernels::ConvertElements(type, values, width, input_type_, to);
  }
  return to + Bytes(input_type_, width);
}

absl::Status StatefulModel::StageFeatures(const NodeRows& rows) {
  const std::vector<float>& mask = weights_.mask_features;
  char* to = features_.host.as<char>();
  int total = 0;
  for (const auto& [features, rows_each] : rows.features) {
    if (features.width != weights_.feature_width || features.on_device()) {
      return absl::InvalidArgumentError(absl::StrCat("features have width ", features.width,
                                                     "; this drafter needs ",
                                                     weights_.feature_width, " as bytes"));
    }
    total += features.rows() * rows_each;
    CHECK_LE(total, max_rows());
    for (int token = 0; token < features.rows(); ++token) {
      const char* const own = features.bytes.data() + token * features.row_bytes();
      for (int k = 0; k < rows_each; ++k) {
        const bool masked = k > 0 && !mask.empty();
        to = masked ? Stage(mask.data(), DType::kF32, to) : Stage(own, features.type, to);
      }
    }
  }
  CHECK_EQ(total, rows.batch.rows()) << "each row reads features";
  device().Copy(features_.device.data(), features_.host.data(), to - features_.host.as<char>());
  return absl::OkStatus();
}

absl::Status StatefulModel::StageStates(const NodeRows& rows) {
  const size_t bytes = state_bytes(), share = positions() * bytes;
  CHECK_EQ(rows.states.size() * positions(), rows.batch.rows() * bytes) << "each node has a state";
  char* const to = states_in_.host.as<char>();
  for (size_t node = 0; node * bytes < rows.states.size(); ++node) {
    for (int k = 0; k < positions(); ++k) {
      std::memcpy(to + node * share + k * bytes, rows.states.data() + node * bytes, bytes);
    }
  }
  device().Copy(states_in_.device.data(), to, rows.batch.rows() * bytes);
  return absl::OkStatus();
}

absl::Status StatefulModel::Run(const NodeRows& rows, absl::Span<const int> wanted,
                                absl::Span<const kernels::ChoiceRule> rules) {
  const bool from_features = rows.states.empty();
  RETURN_IF_ERROR(from_features ? StageFeatures(rows) : StageStates(rows));
  return step_->Forward({.batch = rows.batch, .wanted = wanted, .rules = rules},
                        from_features ? kFromFeatures : kFromStates);
}

absl::Status StatefulModel::Forward(const NodeRows& rows) {
  RETURN_IF_ERROR(Run(rows, {}, {}));
  return device().Finish();  // The next forward overwrites the inputs.
}

absl::StatusOr<std::vector<Marginals>> StatefulModel::Predict(
    const NodeRows& rows, absl::Span<const int> wanted,
    absl::Span<const kernels::ChoiceRule> coupling, int candidates) {
  RETURN_IF_ERROR(Run(rows, wanted, coupling));
  if (state_bytes() > 0) {
    device().Copy(states_out_.data(), step_->features(), rows.batch.rows() * state_bytes());
  }
  std::vector<Marginals> marginals;
  StopWatch watch;
  if (wanted.empty()) {
    RETURN_IF_ERROR(device().Finish());
  } else {
    RETURN_IF_ERROR(step_->Head());
    (void)watch.Lap();  // Without the head.
    ASSIGN_OR_RETURN(marginals, ranking_.Rank(*step_, positions(), candidates));
  }
  const bool coupled = std::any_of(coupling.begin(), coupling.end(),
                                   [](const auto& rule) { return rule.temperature > 0; });
  RETURN_IF_ERROR(Complete(rows.batch.rows(), wanted, coupled, marginals));
  candidates_time_ = device().on_host() ? watch.Lap() : absl::ZeroDuration();
  device().Rest();
  return marginals;
}

}  // namespace bastion::drafter
