// The open sequences of a drafter: their known tokens and their pages of the context cache.
// Thread-compatible; owned by an engine.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_SEQUENCES_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_SEQUENCES_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/nn/page_pool.h"
#include "common/nn/prefix_cache.h"
#include "common/stages/stage_data.h"
#include "drafter_service/engine/drafted_tree.h"

namespace bastion::drafter {

struct DraftSequence {
  SequenceId id;
  Position context = 0;  // Committed tokens that are in the cache.
  nn::PageTable table;
  std::vector<TokenId> tokens;  // The first tokens of the sequence, as far as they are known.
  std::optional<nn::PrefixCache::Chain> prefix = {};  // Set if the sequence shares its pages.
  DraftedTree tree = {};                              // Only an autoregressive drafter has one.
  bool warned = false;  // The first failed draft has been logged. Later ones are not.
};

class DraftSequences {
 public:
  // `pages` must outlive this object. With `reuse_prefixes`, sequences share the context of equal
  // prompts.
  DraftSequences(nn::PagePool* pages, int max_sequences, bool reuse_prefixes)
      : pages_(pages),
        max_sequences_(max_sequences),
        reuse_prefixes_(reuse_prefixes),
        prefixes_(pages) {}

  // Opens the sequence if it is not open, and closes an earlier epoch of it. FAILED_PRECONDITION
  // for a stale epoch; RESOURCE_EXHAUSTED if too many sequences are open. The pointer stays valid
  // until the sequence is closed.
  [[nodiscard]] absl::StatusOr<DraftSequence*> FindOrOpen(SequenceId id);
  // Frees the pages of the sequence. Ignores an unknown sequence.
  void Close(SequenceId id);
  [[nodiscard]] int size() const { return static_cast<int>(sequences_.size()); }

  // Begins the context with pages of earlier sequences that have the same first tokens and `salt`.
  // Does nothing if the context has begun.
  void ReusePrefix(const std::string& salt, DraftSequence& sequence);
  // Lets later sequences reuse the context.
  void KeepPrefix(DraftSequence& sequence);

 private:
  nn::PagePool* const pages_;
  const int max_sequences_;
  const bool reuse_prefixes_;
  nn::PrefixCache prefixes_;
  absl::node_hash_map<uint64_t, DraftSequence> sequences_;  // By session.
};

// INVALID_ARGUMENT if the session of `frontier` is in `seen`, to which it adds the session. A
// second frontier of a session could close the sequence of the first one.
[[nodiscard]] absl::Status CheckOccursOnce(const Frontier& frontier,
                                           absl::flat_hash_set<uint64_t>& seen);

// Adds the tokens of `frontier` that `sequence` does not have, unless others before them are
// missing.
void AddNewTokens(const Frontier& frontier, DraftSequence& sequence);

// OUT_OF_RANGE if the frontier has more than `max_context` committed tokens; FAILED_PRECONDITION if
// it has fewer than the context.
[[nodiscard]] absl::Status CheckContext(const Frontier& frontier, const DraftSequence& sequence,
                                        int max_context);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_SEQUENCES_H_
