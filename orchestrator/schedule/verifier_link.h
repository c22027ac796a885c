// VerifierLink: the connection to the verifier, and the objects that depend on its target. A
// verifier with a different target or device is profiled when it is connected. Thread-compatible:
// used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_SCHEDULE_VERIFIER_LINK_H_
#define BASTION_ORCHESTRATOR_SCHEDULE_VERIFIER_LINK_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "orchestrator/cycle/decode_cycle.h"
#include "orchestrator/policy/acceptance_file.h"
#include "orchestrator/policy/shared_learning.h"
#include "orchestrator/prior/learned_prior.h"

namespace bastion {

struct VerifierLinkOptions {
  absl::Duration profile_limit = absl::Seconds(10);  // ProfileOptions::time_limit.
  std::string latency_profile = {};                  // ProfileOptions::file.
  ModelDims dims = {};  // The served model's. The verifier's must have the same shape.
  // Transition table for +prior, with the same vocabulary. Not owned. Null: no table.
  const TransitionGains* table = nullptr;
  // Counts shared by all requests. Not owned. Null: requests share no counts.
  LearnedPrior* learned = nullptr;
  // Preserves the calibration of acceptance. Not owned. Null: a restart forgets it.
  AcceptanceFile* acceptance = nullptr;
  const Clock* clock = &Clock::Real();
};

class VerifierLink {
 public:
  // The objects that depend on the verifier's target.
  struct Session {
    TargetInfo target;
    CostModel costs;
    SharedLearning memory;
    DecodeCycle cycle;

    Session(const TargetInfo& info, CostModel fitted, const PriorInputs& prior_inputs,
            Drafter* drafter, Verifier* verifier)
        : target(info),
          costs(std::move(fitted)),
          memory(prior_inputs),
          cycle(info, drafter, verifier, &costs) {}
  };

  // All are called by the thread that calls the link.
  struct Events {
    std::function<void()> on_connect;  // The link is established.
    std::function<void(const absl::Status& reason)> on_loss;
    // A verifier with another target or device has taken the place of the lost one. session() is
    // about to be replaced: no sequence may use it any longer.
    std::function<void()> on_replace;
  };

  // The pointers must outlive this object.
  VerifierLink(const VerifierLinkOptions& options, Verifier* verifier, Drafter* drafter,
               Events events)
      : options_(options), verifier_(verifier), drafter_(drafter), events_(std::move(events)) {}

  // Tries once to reach the verifier, and profiles it if needed. After a failed profile, the
  // next calls fail without another one for a while, because it takes the time of other users of
  // the verifier. On failure, the caller should wait for pause() before it tries again.
  [[nodiscard]] bool Connect();
  // Starts saving what was learned in the background if a save is due.
  void SaveIfDue(absl::Duration now);
  // Saves what was learned. Returns when it is written. Logs errors.
  void Save();
  // Marks the link as lost because of `reason`. REQUIRES: connected().
  void Lose(const absl::Status& reason);
  // UNAVAILABLE if the verifier is lost (Verifier::CheckAlive). REQUIRES: connected().
  [[nodiscard]] absl::Status CheckAlive() const { return verifier_->CheckAlive(); }

  [[nodiscard]] bool connected() const { return connected_; }
  [[nodiscard]] absl::Duration pause() const { return pause_; }
  // Valid after the first successful Connect; a later one may replace it. Null before.
  [[nodiscard]] Session* session() const { return session_.get(); }
  // The drafter's name at the last UpdateDrafter; empty if there was none.
  [[nodiscard]] const std::string& drafter() const { return drafter_name_; }
  // How features reached the drafter then.
  [[nodiscard]] FeatureRoute feature_route() const { return feature_route_; }
  // Asks the drafter for both if this was not done for a while.
  void UpdateDrafter(absl::Duration now);

 private:
  // Reads the verifier's target and makes session_ fit it.
  [[nodiscard]] absl::Status PrepareSession();
  // Profiles the verifier and fits the cost model.
  [[nodiscard]] absl::StatusOr<std::unique_ptr<Session>> MakeSession(const TargetInfo& target);
  // Profiles the verifier unless the last attempt failed a short time ago. Returns the error of
  // this attempt or of that one.
  [[nodiscard]] absl::StatusOr<LatencyProfile> MeasureProfile(const TargetInfo& target);

  const VerifierLinkOptions options_;
  Verifier* const verifier_;
  Drafter* const drafter_;
  const Events events_;

  std::unique_ptr<Session> session_;
  bool connected_ = false;
  std::string drafter_name_;
  FeatureRoute feature_route_ = FeatureRoute::kNone;
  std::optional<absl::Duration> drafter_read_;  // When UpdateDrafter asked for it.
  absl::Status last_error_;                     // The result of the last attempt.
  absl::Duration pause_;
  // After a failed profile.
  absl::Status profile_error_;
  absl::Duration profile_pause_;
  absl::Duration profile_at_;  // On the clock. Not before.
};

// A session id for a new sequence. It is random, so that a restarted orchestrator does not reuse
// the ids of its previous run.
[[nodiscard]] uint64_t NewSession();

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_SCHEDULE_VERIFIER_LINK_H_
