// YieldingVerifier: a verifier client that yields to other clients. After a call had to wait for
// the call of another client, this client takes at most a share kShare of the verifier's time: it
// pauses before each call. The pause counts as time in the queue (TimingTrace::queue).
//
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_PROFILE_YIELDING_VERIFIER_H_
#define BASTION_ORCHESTRATOR_PROFILE_YIELDING_VERIFIER_H_

#include <functional>

#include "common/base/clock.h"
#include "common/stages/stages.h"

namespace bastion {

class YieldingVerifier final : public Verifier {
 public:
  static constexpr double kShare = 0.25;
  using Pause = std::function<void(absl::Duration)>;

  // `verifier` and `clock` must outlive this object.
  explicit YieldingVerifier(Verifier* verifier, const Clock& clock = Clock::Real(),
                            Pause pause = absl::SleepFor)
      : verifier_(verifier), clock_(clock), pause_(std::move(pause)) {}

  absl::StatusOr<TargetInfo> Info() override { return verifier_->Info(); }
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override {
    return verifier_->Open(sequence, sampling);
  }
  absl::StatusOr<int> ReusePrefix(const PrefixItem& item) override {
    return verifier_->ReusePrefix(item);
  }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override;
  void Close(SequenceId sequence) override { verifier_->Close(sequence); }
  absl::Status CheckAlive() override { return verifier_->CheckAlive(); }
  void ExpectVerify(absl::Duration predicted) override { verifier_->ExpectVerify(predicted); }

 private:
  Verifier* const verifier_;
  const Clock& clock_;
  const Pause pause_;
  bool shared_ = false;       // A call has waited for another client.
  absl::Duration next_call_;  // No call begins earlier.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PROFILE_YIELDING_VERIFIER_H_
