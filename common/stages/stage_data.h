// What the stages of the decode cycle tell each other, as plain data: the orchestrator's stages,
// the services' engines and the wire codecs all speak these structs, so that a stage in process and
// a stage behind gRPC are the same to everyone.
#ifndef BASTION_COMMON_STAGES_STAGE_DATA_H_
#define BASTION_COMMON_STAGES_STAGE_DATA_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/base/ids.h"
#include "common/stages/draft_tree.h"
#include "common/stages/marginals.h"
#include "common/stages/sampling_params.h"
#include "common/stages/timing_trace.h"

namespace bastion {

// ---- verify ----

// Prompt tokens to commit without choosing anything. They continue the `cached` tokens already
// there.
struct PrefillItem {
  SequenceId sequence;
  Position cached = 0;
  std::vector<TokenId> tokens;
};

// One sequence's share of a verify forward. `cached` must equal the tokens committed so far.
struct VerifyItem {
  SequenceId sequence;
  Position cached = 0;
  DraftTree tree;
};
using Forest = std::vector<VerifyItem>;

// The path the target would have written itself.
struct Acceptance {
  std::vector<NodeIndex> path;  // Accepted nodes below the root, parents first.
  TokenId next = 0;             // The target's choice after the last accepted node: the next root.
  // Of the path's tokens and of `next`; empty unless asked for.
  std::vector<TokenLogprobs> logprobs = {};

  // Tokens that entered the KV cache: the root and the path (τ is the mean of this).
  [[nodiscard]] int committed_length() const { return 1 + static_cast<int>(path.size()); }
  friend bool operator==(const Acceptance&, const Acceptance&) = default;
};

// A sequence may fail alone (unknown, stale epoch, out of cache): then `acceptance` is empty.
struct VerifyOutcome {
  absl::Status status;
  Acceptance acceptance;
};

// What a verifier's audit of its own cycles found so far (verifier_service/engine/audit.h).
struct AuditCounts {
  int64_t cycles = 0;
  int64_t tokens = 0;
  int64_t within_tolerance = 0;  // Tokens that plain decoding chose otherwise, by a hair.
  int64_t mismatches = 0;        // And those beyond.

  friend bool operator==(const AuditCounts&, const AuditCounts&) = default;
};

struct VerifyResult {
  std::vector<VerifyOutcome> outcomes;  // In the order of the forest.
  TimingTrace trace;
  AuditCounts audit;
};

// ---- draft ----

// A request for the distributions of the positions that follow each of some tree nodes. Nodes are
// named by their path from the root, root excluded; the root itself is the empty path.
struct Frontier {
  SequenceId sequence;
  // Tokens in the target's cache; their features are ready at the verifier.
  Position committed = 0;
  TokenId root = 0;
  // The last committed tokens, at positions [committed - size, committed): those that no earlier
  // successful Expand named. After a failed one all are named again, so that a drafter which
  // restarted misses none; others skip the positions they have. Not sent to a drafter that does
  // not want tokens (DrafterInfo::wants_tokens).
  std::vector<TokenId> new_tokens;
  std::vector<std::vector<TokenId>> paths = {{}};
  int candidates = 64;  // K wanted.
  ChoiceParams sampling;
  // Rank candidates by what the keyed choice will compare, log q/T + g, not by q alone: the drafter
  // guesses what the target picks with the same noise. Of no effect at temperature 0.
  bool coupled = false;
};

// One entry a path; empty marginals where the drafter has nothing to say.
struct Draft {
  std::vector<Marginals> marginals;

  friend bool operator==(const Draft&, const Draft&) = default;
};

// ---- facts each service states about itself ----

// Dims that the roofline needs (method: BASTION, appendix F).
struct ModelDims {
  int layers = 0;
  int hidden = 0;
  int query_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int intermediate = 0;
  int vocabulary = 0;
  int bytes_per_element = 4;
};

// Measured by the verifier at start, never typed in.
struct DevicePeaks {
  double bytes_per_second = 0;
  double flops_per_second = 0;
};

struct TargetInfo {
  std::string model;   // Folder name of the checkpoint.
  std::string device;  // For people: "Intel … , 2 threads, AVX3, bf16".
  ModelDims dims;
  DevicePeaks peaks;
  int max_context = 0;
  int max_rows = 0;  // Most rows one verify forward takes.
};

struct DrafterInfo {
  std::string model;
  int positions = 0;  // P: horizon of one round.
  int vocabulary = 0;
  int max_context = 0;
  bool wants_tokens = false;  // Drafts depend on token ids (Frontier::new_tokens), not features.
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_STAGE_DATA_H_
