// DraftAhead: the next Expand, foreseen, and its answer.
//
// The features of a cycle and the root that follows them leave the verifier together, and reach the
// drafter one message earlier than the orchestrator can ask for the next draft. What it will ask is
// known by then: the last Expand again, one cycle further. So the drafter begins at once, and the
// question finds its answer made. A wrong guess costs one draft and never a token: an answer is
// handed out only to the very question it was made for.
//
// Of several sequences that were asked for together, all are awaited: they are drafted for in one
// forward, as they would have been.
// Thread-compatible.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_AHEAD_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_AHEAD_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/stages/stage_data.h"

namespace bastion::drafter {

class DraftAhead {
 public:
  // An Expand was asked: the next one is foreseen from it, and earlier answers are forgotten.
  void Asked(absl::Span<const Frontier> frontiers);

  // The features up to `committed` have arrived, and `root` follows them. Returns what to draft
  // for now: empty until the last sequence asked for has had its news.
  [[nodiscard]] std::vector<Frontier> Arrived(SequenceId sequence, Position committed,
                                              TokenId root);

  // Answers to what Arrived returned.
  void Keep(absl::Span<const Frontier> frontiers, std::vector<Draft> drafts);

  // Moves the answer to `frontier` to `draft` if it was made; as many candidates as asked for.
  [[nodiscard]] bool Take(const Frontier& frontier, Draft& draft);

  void Forget(SequenceId sequence) { foreseen_.erase(sequence); }

 private:
  struct Foreseen {
    Frontier frontier;
    bool arrived = false;
    Draft answer;  // Empty until made.
  };

  absl::flat_hash_map<SequenceId, Foreseen> foreseen_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_AHEAD_H_
