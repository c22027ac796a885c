#include "tests/support/simulated_device.h"

#include <algorithm>
#include <cmath>

#include "orchestrator/profile/verify_profile.h"

namespace bastion::testing {
namespace {

constexpr TokenId kOther = 99'999;  // A token that is never a candidate.

// Linear between the points at 1, 2, 4, … rows, and beyond them.
std::function<double(double)> Interpolated(std::vector<double> points) {
  return [points = std::move(points)](double rows) {
    const int last = static_cast<int>(points.size()) - 2;
    const int low = std::clamp(static_cast<int>(std::log2(std::max(rows, 1.0))), 0, last);
    const double from = std::exp2(low), to = std::exp2(low + 1);
    return points[low] + (rows - from) / (to - from) * (points[low + 1] - points[low]);
  };
}

DeviceCurve CpuCurve(std::vector<double> points, double draft_start) {
  const std::function<double(double)> verify = Interpolated(std::move(points));
  return {verify, [verify, draft_start](double sequences) {
            return draft_start + verify(8 * sequences) / 7;
          }};
}

double PadTo(double rows, double tile) { return std::ceil(rows / tile) * tile; }

double GpuVerify(double rows) {
  const double padded = rows <= 64 ? rows : PadTo(rows, rows <= 256 ? 64 : 128);
  const double memory = 5.32 * (1 + 0.03 * std::min(padded, 64.0) / 64) * (rows > 64 ? 1.04 : 1);
  const double attention = 0.12 + 0.0029 * std::max(0.0, rows - 40);
  return 0.55 + std::max(memory, 0.0236 * padded) + attention;
}

}  // namespace

DeviceCurve DeviceCurve::Demo() {
  return CpuCurve({0.703, 0.719, 0.884, 1.385, 2.60, 4.64, 9.05, 18.0}, 0.108);
}

DeviceCurve DeviceCurve::Inflated() {
  return CpuCurve({40.3, 40.3, 44.5, 56.2, 91.0, 148.6, 282.9, 555.4}, 2.92);
}

DeviceCurve DeviceCurve::Gpu() {
  return {GpuVerify, [](double sequences) {
            return std::max(0.8, 0.3 + 0.0236 * PadTo(8 * sequences, 128) / 7);
          }};
}

// Measured on 27 November 2026 with answers of 64 tokens. `verify`: forwards after 16 tokens.
// `context_token`: 88 requests at concurrency 1 took 1.24 ms per draft and 0.035 ms per token of
// the prompt. `draft`: what remains of the means per cycle, which are 5.1 ms for 16 requests and
// `fixed:4` (123 tokens of context), and 15.6 ms for 64 requests (373 tokens).
DeviceCurve DeviceCurve::MeasuredGpu() {
  DeviceCurve curve;
  curve.verify = Interpolated({5.70, 5.71, 5.78, 5.80, 5.95, 6.06, 6.23, 7.16, 8.77, 13.88});
  curve.draft = Interpolated({1.20, 1.22, 1.26, 1.30, 1.40, 2.40, 4.40});
  curve.committed_row = 0.006;
  curve.context_token = 0.03;
  return curve;
}

LatencyProfile DeviceCurve::Profile() const {
  LatencyProfile table;
  std::vector<int> row_counts = ProfileOptions().row_counts;
  for (const int more : {192, 256, 384, 512}) row_counts.push_back(more);
  for (const int rows : row_counts) {
    const double seconds = 1e-3 * verify(rows);
    table.points.push_back({rows, 0, seconds, seconds + 1e-3 * overhead});
  }
  return table;
}

TargetInfo SimulatedDevice::Target() const {
  TargetInfo target;
  target.dims = {2, 4, 2, 1, 3, 5, texts_->vocabulary(), 2};
  target.peaks = {1e6, 1e6};
  target.max_rows = 512;
  target.max_context = 1'000'000'000;
  target.kv_tokens = 1'000'000'000;  // Sequences take no memory.
  target.page_tokens = 16;
  return target;
}

absl::Duration SimulatedDevice::Spend(double call_milliseconds) {
  if (call_milliseconds == 0) return absl::ZeroDuration();
  const double factor =
      noise_ > 0 ? std::exp(std::normal_distribution<>(0.0, noise_)(random_)) : 1.0;
  const absl::Duration spent = absl::Milliseconds(call_milliseconds * factor);
  clock_.Advance(spent);
  milliseconds += call_milliseconds;
  return spent;
}

absl::StatusOr<VerifyResult> SimulatedDevice::SimulatedVerifier::Verify(
    const Forest& forest, absl::Span<const PrefillItem> prompts) {
  VerifyResult result;
  int committed = 0;
  for (const VerifyItem& item : forest) {
    result.trace.rows += item.tree.rows();
    result.trace.contexts.push_back(item.cached);
    result.outcomes.push_back({absl::OkStatus(), device_->Accept(item)});
    committed += result.outcomes.back().acceptance.committed_length();
  }
  for (const PrefillItem& item : prompts) {
    result.trace.rows += static_cast<int>(item.tokens.size());
    committed += static_cast<int>(item.tokens.size());
    result.trace.contexts.push_back(item.cached);
    result.prompts.push_back(absl::OkStatus());
  }
  result.free_kv_tokens = device_->Target().kv_tokens;
  const DeviceCurve& curve = device_->curve;
  result.trace.forward = device_->Spend(curve.verify(result.trace.rows));
  result.trace.commit = device_->Spend(curve.committed_row * committed);
  device_->Spend(curve.overhead);
  return result;
}

absl::StatusOr<DrafterInfo> SimulatedDevice::SimulatedDrafter::Info() {
  return DrafterInfo{
      .model = "simulated", .positions = 8, .vocabulary = device_->Target().dims.vocabulary};
}

absl::StatusOr<DraftResult> SimulatedDevice::SimulatedDrafter::Expand(
    absl::Span<const Frontier> frontiers) {
  DraftResult result;
  result.trace.drafts = static_cast<int>(frontiers.size());
  for (const Frontier& frontier : frontiers) {
    result.trace.context_tokens += static_cast<int>(frontier.new_tokens.size());
  }
  const DeviceCurve& curve = device_->curve;
  result.trace.context = device_->Spend(curve.context_token * result.trace.context_tokens);
  result.trace.forward = device_->Spend(curve.draft(result.trace.drafts));
  device_->drafted_sequences += result.trace.drafts;
  if (device_->drafts_fail) return absl::UnavailableError("the simulated drafter fails");
  for (const Frontier& frontier : frontiers)
    result.drafts.push_back({{device_->texts_->Predict(frontier)}});
  return result;
}

Acceptance SimulatedDevice::Accept(const VerifyItem& item) {
  const DraftTree& tree = item.tree;
  Acceptance acceptance;
  NodeIndex at = 0;
  for (;;) {
    acceptance.next = texts_->Choose(item, at);
    NodeIndex child = kNoNode;
    for (NodeIndex i = at + 1; i < tree.rows(); ++i) {
      if (tree.parent(i) == at && tree.token(i) == acceptance.next) child = i;
    }
    if (child == kNoNode) return acceptance;
    acceptance.path.push_back(child);
    at = child;
  }
}

Marginals DrawnTexts::Predict(const Frontier& frontier) {
  const SimulatedDrafts& drafts = drafts_.at(frontier.sequence.session);
  Marginals marginals = MarginalsOf(drafts.stated);
  if (drafts.states_pairs) marginals.pair_scores = drafts.pair_scores;
  return marginals;
}

std::vector<double> DrawnTexts::TruthAfter(const SimulatedDrafts& drafts, int depth,
                                           TokenId before) {
  std::vector<double> truth = drafts.truth[depth];
  const auto candidates = static_cast<TokenId>(truth.size());
  const TokenId previous = depth == 0 ? 0 : before - 100 * (depth - 1);
  const bool paired = drafts.follows_pairs && !drafts.pair_scores.empty();
  if (!paired || previous < 0 || previous >= candidates) return truth;
  const float* row =
      &drafts.pair_scores[static_cast<size_t>((depth * candidates + previous)) * truth.size()];
  double mass = 0, sum = 0;
  for (size_t rank = 0; rank < truth.size(); ++rank) {
    mass += truth[rank];
    truth[rank] *= std::exp(row[rank]);
    sum += truth[rank];
  }
  for (double& probability : truth) probability *= sum == 0 ? 0 : mass / sum;
  return truth;
}

TokenId DrawnTexts::Choose(const VerifyItem& item, NodeIndex node) {
  const SimulatedDrafts& drafts = drafts_.at(item.sequence.session);
  const int depth = item.tree.depth(node);
  if (depth >= static_cast<int>(drafts.truth.size())) return kOther;
  bool off_spine = false;  // The tokens of rank 0 are multiples of 100.
  for (NodeIndex i = node; i != 0; i = item.tree.parent(i)) {
    off_spine = off_spine || item.tree.token(i) % 100 != 0;
  }
  const std::vector<double> truth = TruthAfter(drafts, depth, item.tree.token(node));
  double left = std::uniform_real_distribution<>()(random_);
  for (size_t rank = 0; rank < truth.size(); ++rank) {
    left -= truth[rank] * (off_spine ? drafts.off_spine : 1.0);
    if (left < 0) return 100 * depth + static_cast<TokenId>(rank);
  }
  return kOther;
}

}  // namespace bastion::testing
