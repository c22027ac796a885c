// DraftAhead: predicts the next Expand and holds its reply.
//
// The verifier sends a cycle's features together with the next root. They reach the drafter one
// message before the orchestrator can request the next draft. That request is predictable: it
// equals the last Expand, except for the number of committed tokens and the root, which are now
// known. So the drafter starts immediately, and the reply is ready when the request arrives. A
// wrong prediction wastes one draft but never changes the output: a reply is used only for a
// request that equals the predicted one.
//
// Sequences that were requested together are drafted together: DraftAhead waits for the features of
// all of them.
//
// Thread-compatible.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_AHEAD_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_AHEAD_H_

#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "common/stages/stage_data.h"

namespace bastion::drafter {

// True if a path of `draft` has marginals.
[[nodiscard]] bool HasMarginals(const Draft& draft);

class DraftAhead {
 public:
  // Predicts the Expand that follows one with `frontiers`, and discards earlier replies.
  void PredictNext(absl::Span<const Frontier> frontiers);

  // Records that the features of the first `committed` tokens have arrived and that `root` follows
  // them. Returns the frontiers to draft now: none until the features of every predicted sequence
  // have arrived.
  [[nodiscard]] std::vector<Frontier> AddArrival(SequenceId sequence, Position committed,
                                                 TokenId root);

  // Stores the drafts for the frontiers that AddArrival returned.
  void Keep(absl::Span<const Frontier> frontiers, std::vector<Draft> drafts);

  // Moves the stored reply for `frontier` to `draft`, trimmed to the requested number of
  // candidates. Returns false if there is no such reply.
  [[nodiscard]] bool Take(const Frontier& frontier, Draft& draft);

  void Forget(SequenceId sequence) { predicted_.erase(sequence); }

 private:
  struct Prediction {
    Frontier frontier;
    bool arrived = false;
    Draft reply;  // Empty until drafted.
  };

  absl::flat_hash_map<SequenceId, Prediction> predicted_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_AHEAD_H_
