// How much of its own work a verifier checks (verifier_service/engine/audit.h). Plain data.
#ifndef BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_OPTIONS_H_
#define BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_OPTIONS_H_

namespace bastion::verifier {

struct AuditOptions {
  double fraction = 0;  // Of the cycles, 0 to 1.
  double tolerance =
      0;  // Differences up to this gap between the two tokens' values count as rounding.
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_OPTIONS_H_
