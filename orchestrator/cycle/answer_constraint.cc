#include "orchestrator/cycle/answer_constraint.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/base/thread_time.h"

namespace bastion {
namespace {

constexpr double kAlpha = 0.25;  // Step size of the expected times.
// A token has few bytes, and takes a small part of the time of a mask.
constexpr absl::Duration kLongestPush = absl::Milliseconds(100);
// A larger constraint takes milliseconds to copy.
constexpr size_t kQuickCopyBytes = 4 << 20;

void Average(double value, double* mean) { *mean += (*mean > 0 ? kAlpha : 1) * (value - *mean); }

absl::StatusOr<std::unique_ptr<TokenConstraint>> StateAfter(const TokenConstraint& start,
                                                            absl::Span<const TokenId> output) {
  ASSIGN_OR_RETURN(std::unique_ptr<TokenConstraint> state, start.Copy());
  for (const TokenId token : output) RETURN_IF_ERROR(state->Push(token));
  return state;
}

// Finds the mask on a thread of its own. `state` may be null.
FoundMask Find(const TokenConstraint& start, std::unique_ptr<TokenConstraint> state,
               absl::Span<const TokenId> output) {
  FoundMask found;
  if (state == nullptr) {
    auto made = StateAfter(start, output);
    if (!made.ok()) {
      found.allowed = made.status();
      return found;
    }
    state = *std::move(made);
  }
  const absl::Duration began = ThreadCpuTime();
  state->LimitTime(AnswerConstraint::kLongestMask);
  found.allowed = state->Allowed();
  found.spent = ThreadCpuTime() - began;
  if (found.allowed.ok()) found.constraint = std::move(state);
  return found;
}

}  // namespace

absl::StatusOr<TokenConstraint*> AnswerConstraint::State(absl::Span<const TokenId> output) {
  if (state_ == nullptr) {
    ASSIGN_OR_RETURN(state_, StateAfter(*start_, output));
  }
  return state_.get();
}

absl::StatusOr<bool> AnswerConstraint::Prepare(absl::Span<const TokenId> output, MaskWorker& worker,
                                               bool may_compute) {
  if (!exists()) return true;
  is_prepared_ = true;
  if (job_ != nullptr) {
    if (!job_->done()) return false;
    RETURN_IF_ERROR(EndJob());
  }
  if (at_root_.has_value()) return true;
  const bool is_quick = state_ != nullptr || (output.empty() && start_->bytes() <= kQuickCopyBytes);
  if (!may_compute || !is_quick || is_expensive()) {
    StartJob(output, worker);
    return false;
  }
  ASSIGN_OR_RETURN(TokenConstraint* const state, State(output));
  const absl::Duration began = ThreadCpuTime();
  state->LimitTime(kCycleTime);
  absl::StatusOr<TokenSet> allowed = state->Allowed();
  RecordRoot(ThreadCpuTime() - began);
  if (absl::IsDeadlineExceeded(allowed.status())) {
    state_ = nullptr;
    root_seconds_ = std::max(root_seconds_, 2 * absl::ToDoubleSeconds(kCycleTime));
    StartJob(output, worker);
    return false;
  }
  RETURN_IF_ERROR(allowed.status());
  at_root_ = *std::move(allowed);
  return true;
}

void AnswerConstraint::StartJob(absl::Span<const TokenId> output, MaskWorker& worker) {
  // std::function needs a copyable object.
  const auto state = std::make_shared<std::unique_ptr<TokenConstraint>>(std::move(state_));
  std::vector<TokenId> tokens;
  if (*state == nullptr) tokens.assign(output.begin(), output.end());
  job_ = worker.Start([start = start_, state, tokens = std::move(tokens)] {
    return Find(*start, std::move(*state), tokens);
  });
}

absl::Status AnswerConstraint::EndJob() {
  FoundMask found = job_->Take();
  job_ = nullptr;
  RecordRoot(found.spent);
  if (found.spent > kSlowMask) ++slow_masks_;
  if (absl::IsDeadlineExceeded(found.allowed.status()) || slow_masks_ >= kMaxSlowMasks) {
    return absl::InvalidArgumentError(
        absl::StrCat("is too complex: finding the tokens that may follow took ",
                     absl::FormatDuration(found.spent), "; an unambiguous grammar is faster"));
  }
  RETURN_IF_ERROR(found.allowed.status());
  state_ = std::move(found.constraint);
  at_root_ = *std::move(found.allowed);
  return absl::OkStatus();
}

absl::Status AnswerConstraint::Apply(absl::Span<const TokenId> output,
                                     const absl::flat_hash_set<TokenId>& ends, GrownTree* grown) {
  if (at_root_.has_value() && (state_ == nullptr || grown->tree.nodes() == 0)) {
    grown->tree.Truncate(0);
    grown->masks = {{*at_root_}, {0}};
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(TokenConstraint* const state, State(output));
  if (is_prepared_) state->LimitTime(kCycleTime);
  return ConstrainTree(ends, *state, grown, at_root_.has_value() ? &*at_root_ : nullptr);
}

absl::Status AnswerConstraint::Constrain(absl::Span<const TokenId> output,
                                         const absl::flat_hash_set<TokenId>& ends,
                                         GrownTree* grown) {
  if (!exists()) return absl::OkStatus();
  absl::Status constrained = Apply(output, ends, grown);
  if (constrained.ok() || grown->tree.nodes() == 0) return constrained;
  grown->tree.Truncate(0);
  state_ = nullptr;  // An error can leave it below the root.
  root_seconds_ = std::max(root_seconds_, 2 * absl::ToDoubleSeconds(kCycleTime));
  return Apply(output, ends, grown);
}

std::vector<TokenId> AnswerConstraint::FindForced(absl::Span<const TokenId> output) {
  if (!exists() || !EnsureState(output).ok() || state_ == nullptr || complete()) return {};
  return state_->Forced();
}

absl::Status AnswerConstraint::EnsureState(absl::Span<const TokenId> output) {
  if (!exists() || is_prepared_) return absl::OkStatus();
  return State(output).status();
}

absl::Status AnswerConstraint::Push(TokenId token) {
  at_root_.reset();
  if (state_ == nullptr) return absl::OkStatus();
  if (is_prepared_) state_->LimitTime(kLongestPush);
  return state_->Push(token);
}

void AnswerConstraint::Reset() {
  state_ = nullptr;
  at_root_.reset();
  job_ = nullptr;
}

void AnswerConstraint::RecordMasks(int rows, absl::Duration spent) {
  if (!exists()) return;
  spent += std::exchange(root_spent_, absl::ZeroDuration());
  Average(absl::ToDoubleSeconds(spent) / rows, &mask_seconds_);
}

void AnswerConstraint::RecordRoot(absl::Duration spent) {
  root_spent_ = spent;
  Average(absl::ToDoubleSeconds(spent), &root_seconds_);
}

bool AnswerConstraint::is_expensive() const {
  return root_seconds_ > absl::ToDoubleSeconds(kCycleTime);
}

std::optional<int> AnswerConstraint::max_nodes() const {
  const double seconds = std::max(mask_seconds_, root_seconds_);
  if (seconds <= 0) return std::nullopt;
  constexpr double kMost = 1e6;
  return static_cast<int>(std::min(kMost, absl::ToDoubleSeconds(kCycleTime) / seconds));
}

}  // namespace bastion
