// The open sequences of a drafter: their known tokens and their pages of the context cache.
// Thread-compatible; owned by an engine.
//
// A sequence that lacks much context, e.g. after a long prompt, can catch up in pieces between the
// calls of Expand. Until then it is behind, and has no drafts.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_SEQUENCES_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_SEQUENCES_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/stages/features.h"
#include "common/stages/stage_data.h"
#include "drafter_service/engine/drafted_tree.h"
#include "drafter_service/engine/held_features.h"
#include "engine/model/page_pool.h"
#include "engine/model/prefix_cache.h"

namespace bastion::drafter {

// Maximum number of context tokens in one forward. Bounds the memory that a long prompt needs.
inline constexpr int kContextChunk = 512;
// Tokens of a piece. An Expand may have to wait for the end of one.
inline constexpr int kPieceRows = 128;
// A sequence that lacks no more rows than this is never behind. A cycle commits fewer.
inline constexpr int kCycleRows = 32;

struct DraftSequence {
  enum class Pieces { kNone, kQueued, kReading };

  SequenceId id;
  Position context = 0;  // Tokens of the context whose rows are in the cache.
  nn::PageTable table;
  std::vector<TokenId> tokens;  // The first tokens of the sequence, as far as they are known.
  std::optional<nn::PrefixCache::Chain> prefix = {};  // Set if the sequence shares its pages.
  DraftedTree tree = {};                              // Only an autoregressive drafter has one.
  std::string states = {};                            // Those of the tree's rows (node_model.h).
  HeldFeatures held = {};                             // Only of a drafter with such states.
  Pieces pieces = Pieces::kNone;                      // kNone: not behind.
  Position catch_up_to = 0;                           // The last piece ends here.
  bool warned = false;  // The first failed draft has been logged. Later ones are not.
};

class DraftSequences {
 public:
  struct Options {
    int max_sequences = 0;
    bool reuse_prefixes = false;  // Sequences share the context of equal prompts.
    bool defer_catch_up = false;  // False: no sequence is ever behind.
    // NodeModel::first_token(): the first token of the context. Its rows depend on earlier tokens.
    int first_token = 0;
    int rows_per_token = 1;  // NodeModel::rows_per_token().
  };
  // `pages` must outlive this object.
  DraftSequences(nn::PagePool* pages, const Options& options)
      : pages_(pages), options_(options), prefixes_(pages) {}

  // Opens the sequence if it is not open, and closes an earlier epoch of it. FAILED_PRECONDITION
  // for a stale epoch; RESOURCE_EXHAUSTED if too many sequences are open. The pointer stays valid
  // until the sequence is closed.
  [[nodiscard]] absl::StatusOr<DraftSequence*> FindOrOpen(SequenceId id);
  // Frees the pages of the sequence. Ignores an unknown sequence.
  void Close(SequenceId id);
  [[nodiscard]] int size() const { return static_cast<int>(sequences_.size()); }

  // Begins the context with pages of earlier sequences that have the same first tokens and `salt`.
  // Does nothing if the context has begun, or if its first piece has.
  void ReusePrefix(const std::string& salt, DraftSequence& sequence);
  // Frees the pages after the context.
  void ShrinkToContext(DraftSequence& sequence) {
    pages_->Shrink(sequence.table, sequence.context * options_.rows_per_token);
  }
  // Lets later sequences reuse the context.
  void KeepPrefix(DraftSequence& sequence);

  // ---- catch-up ----
  // Begins an Expand. It may compute kContextChunk rows of context for sequences that lack more
  // than kCycleRows.
  void BeginExpand() { room_ = kContextChunk; }
  // True if the sequence is behind, or becomes so because Expand may not compute all its context up
  // to `committed`. A sequence for whose context too few pages are free gives its pages back, and
  // gets no pieces.
  [[nodiscard]] bool Defer(DraftSequence& sequence, Position committed);
  // True if there is a next piece.
  [[nodiscard]] bool has_piece() const { return !queue_.empty(); }
  // The next piece of the sequence that has waited longest. REQUIRES: has_piece().
  [[nodiscard]] FeatureRange NextPiece();
  // The sequence of a piece that has been read; it is no longer behind. Null if it was closed.
  [[nodiscard]] DraftSequence* EndPiece(const FeatureRange& piece);
  // Ends the work on a piece of the sequence, which ended with `appended`. If OK, the next piece is
  // queued, if there is one. If ABORTED, the same piece is queued again. If RESOURCE_EXHAUSTED, the
  // sequence gives its pages back, so that the others can finish.
  void FinishPiece(const absl::Status& appended, DraftSequence& sequence);

 private:
  [[nodiscard]] DraftSequence* Find(SequenceId id);
  // The tokens of the context's rows, as far as they are known, for at most `limit` tokens.
  [[nodiscard]] std::vector<TokenId> RowTokens(const DraftSequence& sequence, size_t limit) const;
  [[nodiscard]] bool reuses_prefixes() const {
    const int rows = options_.rows_per_token;
    return options_.reuse_prefixes && rows > 0 && kernels::kPageTokens % rows == 0;
  }
  // Frees all context of the sequence.
  void GiveBackPages(DraftSequence& sequence);

  nn::PagePool* const pages_;
  const Options options_;
  nn::PrefixCache prefixes_;
  absl::node_hash_map<uint64_t, DraftSequence> sequences_;  // By session.
  std::deque<SequenceId> queue_;                            // Sequences that wait for a piece.
  int room_ = 0;                                            // See BeginExpand.
};

// INVALID_ARGUMENT if the session of `frontier` is in `seen`, to which it adds the session. A
// second frontier of a session could close the sequence of the first one.
[[nodiscard]] absl::Status CheckOccursOnce(const Frontier& frontier,
                                           absl::flat_hash_set<uint64_t>& seen);

// True if the verifier has not sent the features. Other errors are those of one sequence.
[[nodiscard]] bool LacksFeatures(const absl::Status& error);

// INVALID_ARGUMENT if a number or a token of `frontier` is out of range.
[[nodiscard]] absl::Status CheckTokens(const Frontier& frontier, int vocabulary);

// Adds the tokens of `frontier` that `sequence` does not have, unless others before them are
// missing.
void AddNewTokens(const Frontier& frontier, DraftSequence& sequence);

// OUT_OF_RANGE if the frontier has more than `max_context` committed tokens; FAILED_PRECONDITION if
// it has fewer than the context.
[[nodiscard]] absl::Status CheckContext(const Frontier& frontier, const DraftSequence& sequence,
                                        int max_context);

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_DRAFT_SEQUENCES_H_
