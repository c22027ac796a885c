// Audit: decodes a fraction of the cycles again, one token at a time, and compares the tokens.
//
// It runs after a cycle's commit on the same cache: it writes each row's key and value to the slot
// that already holds them. Thread-compatible.
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

  // Decides at random, with probability options.fraction, whether to check the next cycle.
  [[nodiscard]] bool SelectNextCycle();

  // Checks the tokens of `item` that `acceptance` committed; `sequence` is in the state after the
  // commit. A difference beyond the tolerance is logged; with options.show_tokens, with everything
  // needed to reproduce it.
  void Check(const VerifyItem& item, const Acceptance& acceptance, Sequence& sequence);

  [[nodiscard]] const AuditCounts& counts() const { return counts_; }

 private:
  struct PlainChoice {
    TokenId token;
    float gap;  // The token's score, minus the score of the token that it is compared with.
  };
  // A committed token of the cycle.
  struct Committed {
    TokenId token;
    TokenId next;      // The token that the target chose after it.
    RowMasks allowed;  // One row: the tokens that it might choose.
  };
  // Runs a plain decode step for `committed` at `position`. Compares its choice with the next
  // token.
  [[nodiscard]] PlainChoice DecodeOne(Sequence& sequence, Position position,
                                      const Committed& committed);
  void Report(const VerifyItem& item, const Sequence& sequence,
              const std::string& difference) const;

  const AuditOptions options_;
  Target* const target_;
  uint64_t drawn_ = 0;
  AuditCounts counts_;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_ENGINE_AUDIT_H_
