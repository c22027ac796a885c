// Settings of the verifier's audit (verifier_service/engine/audit.h). Plain data.
#ifndef BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_OPTIONS_H_
#define BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_OPTIONS_H_

namespace bastion::verifier {

struct AuditOptions {
  double fraction = 0;  // Fraction of cycles to check, 0 to 1.
  // Largest gap between the two tokens' logits that counts as rounding.
  double tolerance = 0;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_OPTIONS_H_
