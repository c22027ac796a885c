// Audit: a share of the cycles in service, decoded once more one token at a time, as plain decoding
// would have. What speculation wrote must be what that writes.
//
// It runs after a cycle's commit, on the same cache: every row goes to where its key and value
// already are. Thread-compatible.
#ifndef BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_H_
#define BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_H_

#include <cstdint>
#include <string>

#include "common/stages/stage_data.h"
#include "verifier_service/engine/audit_options.h"
#include "verifier_service/engine/sequence_table.h"
#include "verifier_service/model/target.h"

namespace bastion::verifier {

class Audit {
 public:
  Audit(const AuditOptions& options, Target* target) : options_(options), target_(target) {}

  // Whether the next cycle is to be checked.
  [[nodiscard]] bool Draw();

  // Checks what `acceptance` committed of `item`; `sequence` is as it is after that. A difference
  // beyond the tolerance is logged with all that is needed to see it again.
  void Check(const VerifyItem& item, const Acceptance& acceptance, Sequence& sequence);

  [[nodiscard]] const AuditCounts& counts() const { return counts_; }

 private:
  // Plain decoding's choice after `token`, and by how much it is better than `taken`.
  struct PlainChoice {
    TokenId token;
    float gap;
  };
  [[nodiscard]] PlainChoice DecodeOne(Sequence& sequence, Position position, TokenId token,
                                      TokenId taken);
  void Report(const VerifyItem& item, const Sequence& sequence,
              const std::string& difference) const;

  const AuditOptions options_;
  Target* const target_;
  uint64_t drawn_ = 0;
  AuditCounts counts_;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_H_
