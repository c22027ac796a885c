// What speculation is expected to gain: arithmetic over recorded draft trees and the costs of
// cycles.
//
// The recorded trees are larger than those that pay. A policy that pays for nodes keeps the nodes
// above some path probability. An ancestor's probability is never smaller, so the kept nodes are a
// tree, and the cycle would have committed one token and the accepted nodes among them.
// Thread-safe: no state.
#ifndef BASTION_TOOLS_DOCTOR_EXPECTED_SPEEDUP_H_
#define BASTION_TOOLS_DOCTOR_EXPECTED_SPEEDUP_H_

#include <vector>

#include "absl/types/span.h"

namespace bastion::doctor {

struct RecordedNode {
  double path_probability = 0;
  bool accepted = false;
};
using RecordedTree = std::vector<RecordedNode>;

// What a cycle costs in which `requests` requests decode. All times are in seconds.
struct CycleCosts {
  int requests = 1;
  // [nodes + 1] A cycle that verifies n nodes of all trees together, without planning.
  std::vector<double> without_draft;
  std::vector<double> after_draft;  // The same after a draft, without the draft.
  double draft_seconds = 0;         // A draft for all requests.
  double planning_seconds = 0;

  [[nodiscard]] double plain_seconds() const {
    return without_draft.empty() ? 0 : without_draft[0];
  }
};

// Cycles of one way to decode. The means are per request.
struct Speculation {
  double threshold = 1;      // The path probability from which on nodes are kept.
  double nodes = 0;          // Mean nodes of a tree.
  double committed = 1;      // Mean tokens that a cycle commits.
  double cycle_seconds = 0;  // Draft and planning included.
  double speedup = 1;        // Over plain decoding, prompts excluded.
  // The tokens that a cycle must commit on average to be as fast as plain decoding.
  double break_even = 1;
};

// The threshold with the most tokens per second. `drafted`: each cycle drafts for all requests. The
// trees of a batch are spread evenly over `trees`. REQUIRES: the curves of `costs` are
// not empty.
[[nodiscard]] Speculation BestSpeculation(absl::Span<const RecordedTree> trees,
                                          const CycleCosts& costs, bool drafted);

// `modeled` speedup of decoding at some number of requests, corrected by one request: there the
// speedup was measured, and the model's is known. The gain scales by the ratio of the two gains.
[[nodiscard]] double CorrectedSpeedup(double modeled, double measured_at_one,
                                      double modeled_at_one);

// The speedup of whole requests. Their prompts take `prefill_seconds` with and without speculation,
// while their answers take `plain_seconds` with plain decoding.
[[nodiscard]] double WholeSpeedup(double decode_speedup, double prefill_seconds,
                                  double plain_seconds);

}  // namespace bastion::doctor

#endif  // BASTION_TOOLS_DOCTOR_EXPECTED_SPEEDUP_H_
