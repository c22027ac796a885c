// Settings of the verifier's audit (verifier_service/engine/audit.h). Plain data.
#ifndef BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_OPTIONS_H_
#define BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_OPTIONS_H_

namespace bastion::verifier {

struct AuditOptions {
  double fraction = 0;  // Fraction of cycles to check, 0 to 1.
  // If plain decoding chooses another token, the difference counts as rounding if the scores of the
  // two tokens differ by at most this. The score is logit/temperature plus noise, or the logit at
  // temperature 0.
  double tolerance = 0;
  // Log the tokens of a request whose cycle differs, for a replay. They are text of the user.
  bool show_tokens = false;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_OPTIONS_H_
