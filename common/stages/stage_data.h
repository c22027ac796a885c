// Plain data that the stages of the decode cycle exchange. The orchestrator, the services' engines
// and the wire codecs all use these structs, so callers do not depend on whether a stage runs in
// process or over gRPC.
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
#include "common/stages/token_set.h"

namespace bastion {

// ---- verify ----

// Prompt tokens to commit without choosing a token after them. `cached` must equal the number of
// tokens committed so far.
struct PrefillItem {
  SequenceId sequence;
  Position cached = 0;
  std::vector<TokenId> tokens;  // At least one.
};

// The beginning of a sequence, whose keys and values the verifier may already have.
struct PrefixItem {
  SequenceId sequence;
  std::vector<TokenId> tokens;  // The tokens before the first root.
  std::string salt;             // Sequences share memory only under the same salt.
};

// One sequence's part of a verify forward. `cached` must equal the number of tokens committed so
// far.
struct VerifyItem {
  SequenceId sequence;
  Position cached = 0;
  DraftTree tree;
  RowMasks masks = {};  // The target chooses only these tokens. REQUIRES: TargetInfo::takes_masks.
};
using Forest = std::vector<VerifyItem>;

// The part of a tree that the target accepts: the path of its own choices.
struct Acceptance {
  std::vector<NodeIndex> path;  // Accepted nodes below the root, parents first.
  TokenId next = 0;             // The target's choice after the last accepted node: the next root.
  // One entry per token of `path`, then one for `next`. Empty unless the request asks for
  // log-probabilities.
  std::vector<TokenLogprobs> logprobs = {};

  // Tokens that entered the KV cache: the root and the path. Its mean is τ.
  [[nodiscard]] int committed_length() const { return 1 + static_cast<int>(path.size()); }
  friend bool operator==(const Acceptance&, const Acceptance&) = default;
};

// The result for one tree. One tree may fail (unknown sequence, stale epoch, no room for its root)
// while others succeed; its `acceptance` is then empty.
struct VerifyOutcome {
  absl::Status status;
  Acceptance acceptance;
};

// Totals of the audit since the verifier started. The audit decodes some cycles again token by
// token and compares the results (verifier_service/engine/audit.h). The gap of two tokens is the
// difference of the values that the keyed choice compares: logits, or logit / temperature + noise.
struct AuditCounts {
  int64_t cycles = 0;            // Cycles compared.
  int64_t tokens = 0;            // Tokens compared.
  int64_t within_tolerance = 0;  // Tokens that differ, with a gap within the tolerance.
  int64_t mismatches = 0;        // Tokens that differ, with a gap above the tolerance.

  friend bool operator==(const AuditCounts&, const AuditCounts&) = default;
};

struct VerifyResult {
  std::vector<VerifyOutcome> outcomes;  // In the order of the forest.
  TimingTrace trace;
  AuditCounts audit;
  std::vector<absl::Status> prompts = {};  // In the order of the prompts.
  int free_kv_tokens = 0;                  // Tokens that fit into the free pages after this call.
};

// ---- draft ----

// Asks a drafter for the distributions of the positions that follow the given tree nodes.
//
// A cycle sends one frontier or several, one per round. The first one of a cycle contains the root
// path. The drafter keeps what it computed for the nodes until the next frontier that contains the
// root path, so that a round costs only its own nodes.
struct Frontier {
  SequenceId sequence;
  // Number of tokens in the target's KV cache. The verifier has their features.
  Position committed = 0;
  TokenId root = 0;
  // The last committed tokens, at positions [committed - new_tokens.size(), committed): all tokens
  // that no earlier successful Expand contained. After a failed Expand, all committed tokens are
  // sent again, in case the drafter restarted. The drafter skips positions that it already has.
  // Empty for a drafter without DrafterInfo::wants_tokens.
  std::vector<TokenId> new_tokens;
  std::string cache_salt = {};  // PrefixItem::salt
  // The nodes, each identified by the tokens on its path from the root, excluding the root. The
  // empty path is the root.
  std::vector<std::vector<TokenId>> paths = {{}};
  int candidates = 64;  // K: candidates per position.
  ChoiceParams sampling;
  // Coupled drafting: rank candidates by log q/T + g, with the noise g of the target's keyed
  // choice, instead of by q. No effect at temperature 0.
  bool coupled = false;
};

// The reply to a Frontier.
struct Draft {
  // One entry per path, in order. Empty marginals: the drafter has no prediction.
  std::vector<Marginals> marginals;
  // Not OK if an error prevented the draft. Without `marginals`, the drafter refused the frontier.
  // With empty marginals, it lacks features of the target: UNAVAILABLE or DEADLINE_EXCEEDED.
  absl::Status status = {};

  friend bool operator==(const Draft&, const Draft&) = default;
};

// True if the drafter does not hold the sequence.
[[nodiscard]] inline bool WasRefused(const Draft& draft) {
  return !draft.status.ok() && draft.marginals.empty();
}

struct DraftResult {
  std::vector<Draft> drafts;  // In the order of the frontiers.
  DraftTrace trace;           // All zero if the drafter does not measure.
};

// ---- service info ----

// Model dimensions that the roofline needs (BASTION, appendix F).
// The matrices of the MLPs. With experts, `expert_layers` of the layers choose `chosen` of
// `experts` MLPs for each row instead.
struct MlpDims {
  int matrices = 3;             // Gate, up and down, or up and down.
  int expert_layers = 0;        // 0: no layer has experts.
  int experts = 0;              // E
  int chosen = 0;               // Experts of a row.
  int expert_intermediate = 0;  // I of an expert.

  friend bool operator==(const MlpDims&, const MlpDims&) = default;
};

struct ModelDims {
  int layers = 0;                   // L
  int hidden = 0;                   // C
  int query_heads = 0;              // H
  int kv_heads = 0;                 // G
  int head_dim = 0;                 // D
  int intermediate = 0;             // I
  int vocabulary = 0;               // V
  double bytes_per_weight = 4;      // May be a fraction, e.g. 0.5 for a format of 4 bits.
  int state_bytes_per_element = 0;  // Bytes of a key, value or activation. 0: the same.
  MlpDims mlp = {};

  friend bool operator==(const ModelDims&, const ModelDims&) = default;
  // True if the models differ at most in the formats of their numbers, and in `mlp`, which older
  // versions do not report.
  [[nodiscard]] bool SameShape(ModelDims other) const {
    other.bytes_per_weight = bytes_per_weight;
    other.state_bytes_per_element = state_bytes_per_element;
    other.mlp = mlp;
    return *this == other;
  }
};

// Peak rates of the verifier's device. The verifier measures them when it starts.
struct DevicePeaks {
  double bytes_per_second = 0;
  double flops_per_second = 0;
};

struct TargetInfo {
  std::string model;   // Folder name of the checkpoint.
  std::string device;  // Description for users: "Intel …, 2 threads, AVX3, bf16".
  bool on_gpu = false;
  ModelDims dims;
  DevicePeaks peaks;
  int max_context = 0;  // Maximum tokens of a sequence.
  int max_rows = 0;     // Maximum rows of one verify forward, prompt tokens included.
  int kv_tokens = 0;    // Capacity of the KV cache, all sequences together.
  int page_tokens = 0;  // Tokens of a page. A sequence occupies whole pages.
  // Hexadecimal digits that differ between models, also between two checkpoints of one shape
  // (hub::Checkpoint::Identity). On a GPU, the family of the GPU and the way of its products
  // follow, as in "3f…-cuda-sm90-exact": two verifiers of one identity give the same bits if they
  // are exact. Empty: the verifier states none.
  std::string identity = {};
  bool takes_masks = false;  // The verifier applies VerifyItem::masks.
};

// What the engine of a service does. A client that sees `busy` for a while without a change of
// `progress` considers the engine hung.
struct EngineActivity {
  uint64_t instance = 0;  // A random number that the process chose when it started.
  uint64_t progress = 0;  // Grows while the engine works.
  bool busy = false;      // A call runs.

  friend bool operator==(const EngineActivity&, const EngineActivity&) = default;
};

// How the target's features reach a drafter.
enum class FeatureRoute {
  kNone = 0,  // No stream of features is open, or the drafter reads none.
  kGrpc = 1,
  kSharedMemory = 2,   // The host's memory.
  kGpuMemory = 3,      // Both services use one GPU.
  kPeerGpuMemory = 4,  // The drafter's GPU reads the memory of the verifier's.
};
// For people: "in GPU memory". Empty for kNone.
[[nodiscard]] std::string Describe(FeatureRoute route);

struct DrafterInfo {
  std::string model;  // Folder name of the checkpoint.
  int positions = 0;  // P: positions that one Expand predicts.
  int vocabulary = 0;
  int max_context = 0;        // Maximum tokens of a sequence.
  bool wants_tokens = false;  // The drafter reads Frontier::new_tokens.
  // The drafter expands every node, in several rounds per cycle. Otherwise only the root: the other
  // paths of a frontier get empty marginals. With several positions, those after the first hold
  // for one descendant each (orchestrator/tree/cycle_draft.h).
  bool expands_nodes = false;
  FeatureRoute features = FeatureRoute::kNone;
};

}  // namespace bastion

#endif  // BASTION_COMMON_STAGES_STAGE_DATA_H_
