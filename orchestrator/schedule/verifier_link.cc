#include "orchestrator/schedule/verifier_link.h"

#include <algorithm>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "orchestrator/profile/verify_profile.h"
#include "orchestrator/schedule/kv_admission.h"

namespace bastion {
namespace {

// The pause between two attempts to reach the verifier grows by 25 percent each time. So connecting
// adds at most 25 percent to the time that the verifier takes to start.
constexpr absl::Duration kFirstPause = absl::Milliseconds(20);
constexpr absl::Duration kLongestPause = absl::Milliseconds(250);
// The pause between a failed profile and the next one doubles each time.
constexpr absl::Duration kFirstProfilePause = absl::Seconds(1);
constexpr absl::Duration kLongestProfilePause = absl::Seconds(30);
// How often the drafter's name is read.
constexpr absl::Duration kDrafterInterval = absl::Milliseconds(250);

bool SameTarget(const TargetInfo& a, const TargetInfo& b) {
  return a.model == b.model && a.identity == b.identity && a.device == b.device &&
         a.dims == b.dims && a.max_rows == b.max_rows && a.max_context == b.max_context &&
         a.kv_tokens == b.kv_tokens && a.page_tokens == b.page_tokens;
}

std::string Sizes(const ModelDims& dims) {
  return absl::StrCat(dims.layers, " layers of width ", dims.hidden, ", ", dims.query_heads,
                      " query heads, ", dims.kv_heads, " KV heads of width ", dims.head_dim,
                      ", an MLP of width ", dims.intermediate, " and a vocabulary of ",
                      dims.vocabulary);
}

}  // namespace

uint64_t NewSession() {
  absl::BitGen bits;
  return absl::Uniform<uint64_t>(bits);
}

bool VerifierLink::Connect() {
  if (const absl::Status status = PrepareSession(); !status.ok()) {
    if (status != last_error_) LOG(WARNING) << "waiting for the verifier: " << status;
    last_error_ = status;
    pause_ = std::clamp(1.25 * pause_, kFirstPause, kLongestPause);
    return false;
  }
  last_error_ = absl::OkStatus();
  pause_ = absl::ZeroDuration();
  connected_ = true;
  events_.on_connect();
  return true;
}

void VerifierLink::Lose(const absl::Status& reason) {
  connected_ = false;
  events_.on_loss(reason);
}

absl::Status VerifierLink::PrepareSession() {
  ASSIGN_OR_RETURN(const TargetInfo target, verifier_->Info());
  const bool same = session_ != nullptr && SameTarget(session_->target, target);
  if (!same) {
    if (session_ != nullptr) events_.on_replace();
    ASSIGN_OR_RETURN(session_, MakeSession(target));
  }
  drafter_read_.reset();
  UpdateDrafter(Clock::Real().Now());
  if (!same && options_.acceptance != nullptr) {
    options_.acceptance->Restore({target.model, drafter_name_}, &session_->memory);
  }
  return absl::OkStatus();
}

void VerifierLink::UpdateDrafter(absl::Duration now) {
  if (drafter_read_.has_value() && now - *drafter_read_ < kDrafterInterval) return;
  const absl::StatusOr<DrafterInfo> drafter = drafter_->Info();
  if (!drafter.ok() && (!drafter_read_.has_value() || !drafter_name_.empty())) {
    LOG(WARNING) << "no drafter; decoding without speculation: " << drafter.status();
  }
  drafter_name_ = drafter.ok() ? drafter->model : "";
  feature_route_ = drafter.ok() ? drafter->features : FeatureRoute::kNone;
  drafter_read_ = now;
}

void VerifierLink::SaveIfDue(absl::Duration now) {
  if (options_.learned != nullptr) options_.learned->SaveIfDue(now);
  if (options_.acceptance != nullptr && session_ != nullptr) {
    options_.acceptance->SaveIfDue(now, session_->memory);
  }
}

void VerifierLink::Save() {
  if (LearnedPrior* const learned = options_.learned; learned != nullptr) {
    learned->WaitForSave();
    if (const absl::Status saved = learned->Save(); !saved.ok()) {
      LOG(ERROR) << "could not save the learned prior: " << saved;
    }
  }
  if (AcceptanceFile* const acceptance = options_.acceptance;
      acceptance != nullptr && session_ != nullptr) {
    acceptance->WaitForSave();
    acceptance->Collect(session_->memory);
    if (const absl::Status saved = acceptance->Save(); !saved.ok()) {
      LOG(ERROR) << "could not save the calibration of acceptance: " << saved;
    }
  }
}

absl::StatusOr<std::unique_ptr<VerifierLink::Session>> VerifierLink::MakeSession(
    const TargetInfo& target) {
  if (!target.dims.SameShape(options_.dims)) {
    return absl::FailedPreconditionError(
        absl::StrCat("the verifier's model has ", Sizes(target.dims),
                     ", but the model of the orchestrator's folder has ", Sizes(options_.dims),
                     "; start both with the same --target"));
  }
  RETURN_IF_ERROR(CheckKvCache(target));
  StopWatch watch;
  ASSIGN_OR_RETURN(const LatencyProfile table, MeasureProfile(target));
  ASSIGN_OR_RETURN(CostModel costs, CostModel::Fit(target, table));
  LOG(INFO) << "cost model profiled up to " << table.max_rows() << " rows in " << watch.Lap();
  const PriorInputs prior_inputs = {
      .vocabulary = options_.dims.vocabulary,
      .table = options_.table,
      .learned = options_.learned == nullptr ? nullptr : options_.learned->counts()};
  return std::make_unique<Session>(target, std::move(costs), prior_inputs, drafter_, verifier_);
}

absl::StatusOr<LatencyProfile> VerifierLink::MeasureProfile(const TargetInfo& target) {
  if (options_.clock->Now() < profile_at_) return profile_error_;
  LOG(INFO) << "verifier connected: " << target.model << " on " << target.device
            << "; profiling the cost model";
  absl::StatusOr<LatencyProfile> table =
      MeasureProfileWithBar(*verifier_, "profiling",
                            {.time_limit = options_.profile_limit,
                             .session = NewSession(),
                             .file = options_.latency_profile});
  profile_error_ = table.status();
  profile_pause_ = table.ok()
                       ? absl::ZeroDuration()
                       : std::clamp(2 * profile_pause_, kFirstProfilePause, kLongestProfilePause);
  profile_at_ = options_.clock->Now() + profile_pause_;
  return table;
}

}  // namespace bastion
