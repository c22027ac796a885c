// ForwardingVerifier: passes all calls on to another verifier. A base for tests that watch or
// change some of them.
#ifndef BASTION_TESTS_SUPPORT_FORWARDING_VERIFIER_H_
#define BASTION_TESTS_SUPPORT_FORWARDING_VERIFIER_H_

#include "common/stages/stages.h"

namespace bastion::testing {

class ForwardingVerifier : public Verifier {
 public:
  // `inner` must outlive this object.
  explicit ForwardingVerifier(Verifier* inner) : inner_(inner) {}

  absl::StatusOr<TargetInfo> Info() override { return inner_->Info(); }
  absl::Status Open(SequenceId sequence, const SamplingParams& sampling) override {
    return inner_->Open(sequence, sampling);
  }
  absl::StatusOr<int> ReusePrefix(const PrefixItem& item) override {
    return inner_->ReusePrefix(item);
  }
  absl::StatusOr<VerifyResult> Verify(const Forest& forest,
                                      absl::Span<const PrefillItem> prompts) override {
    return inner_->Verify(forest, prompts);
  }
  void Close(SequenceId sequence) override { inner_->Close(sequence); }

 private:
  Verifier* const inner_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_FORWARDING_VERIFIER_H_
