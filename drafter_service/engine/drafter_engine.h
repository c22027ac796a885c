// The drafter engine: keeps each sequence's context cache up to date, and drafts. drafter_kinds.h
// lists the implementations, block_engine.h and autoregressive_engine.h. The service exposes it
// over gRPC; the bench embeds it.
//
// Not thread-safe: one call at a time, except for ReadPiece.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_DRAFTER_ENGINE_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_DRAFTER_ENGINE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/stages/features.h"
#include "common/stages/stage_data.h"
#include "drafter_service/draft/draft_model.h"
#include "engine/model/engine_options.h"
#include "engine/model/forward_cost.h"

namespace bastion::drafter {

struct DrafterOptions {
  std::string drafter_folder;
  std::string target_folder;  // A block drafter uses its embedding and its LM head.
  nn::EngineOptions engine;
  int max_sequences = 64;
  bool reuse_prefixes = true;  // Share the context of equal prompts. Requires their tokens.
  // A sequence that lacks much context gets no drafts until calls of AppendPiece have added it.
  // False: Expand adds it, however long that takes.
  bool defer_catch_up = false;
  // How long an Expand may wait for features, all sequences together. Also the limit for a piece.
  absl::Duration feature_timeout = absl::Milliseconds(200);
  // Draft only the most frequent tokens, this many (draft_vocabulary.h). 0: all tokens.
  int draft_vocabulary = 0;
};

// The last part of a folder's path, with or without a slash at its end.
[[nodiscard]] std::string FolderName(const std::string& folder);

class DrafterEngine {
 public:
  // The engine for the kind of model in options.drafter_folder. `features` must outlive it. Returns
  // the errors of the loader and of ReadDraftVocabulary.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<DrafterEngine>> Create(
      const DrafterOptions& options, FeatureSource* features);
  virtual ~DrafterEngine() = default;

  [[nodiscard]] virtual const DrafterInfo& info() const = 0;
  // The target layers whose features this drafter reads. Empty: it reads none.
  [[nodiscard]] virtual const std::vector<int>& feature_layers() const = 0;
  // How the model reads features in GPU memory. Null: it accepts only bytes.
  [[nodiscard]] virtual const DeviceReader* device_reader() const { return nullptr; }
  // The cost factors of one draft: weight bytes, KV bytes per cached token, multiply-adds per row.
  [[nodiscard]] virtual nn::ForwardCost cost() const = 0;

  // Contract: Drafter::Expand in common/stages/stages.h. The first Expand of a sequence builds the
  // whole context from the features of its committed tokens or from the tokens, except for the
  // pages that an earlier sequence with the same tokens and salt has left. Later ones extend it. If
  // this is deferred (see below) or fails, e.g. because features are not available, all marginals
  // of the frontier are empty. Without DrafterInfo::expands_nodes, only the root path gets
  // marginals; those of other paths are empty. An invalid frontier, a stale epoch, a second
  // frontier of a session and one sequence too many fail alone (Draft::status). So does a sequence
  // with missing tokens, which is closed: the next frontier must have all its tokens.
  [[nodiscard]] virtual absl::StatusOr<std::vector<Draft>> Expand(
      absl::Span<const Frontier> frontiers) = 0;
  // Called when the features of the first `committed` tokens can be read and `root` follows them.
  // May draft ahead (draft_ahead.h), and so may take as long as Expand. Errors are dropped; the
  // next Expand reports them.
  virtual void FeaturesArrived(SequenceId sequence, Position committed, TokenId root) = 0;
  virtual void Close(SequenceId sequence) = 0;

  // ---- catch-up, with DrafterOptions::defer_catch_up ----
  // True if there is a piece of context to add to a sequence that is behind.
  [[nodiscard]] virtual bool has_piece() const { return false; }
  // The next piece. The caller passes it to ReadPiece, then to AppendPiece with what was read.
  // REQUIRES: has_piece().
  [[nodiscard]] virtual FeatureRange NextPiece() { return {}; }
  // Reads the features of a piece, if the drafter needs any. May wait for them. Thread-safe: other
  // calls may run meanwhile.
  [[nodiscard]] virtual absl::StatusOr<Features> ReadPiece(const FeatureRange& /*piece*/) {
    return Features();
  }
  // Adds the piece to the context. If that fails, the sequence continues at the next Expand; if
  // pages are lacking, it gives its pages back and begins again when enough are free.
  // Returns false if the sequence was closed after NextPiece.
  [[nodiscard]] virtual bool AppendPiece(const FeatureRange& piece,
                                         absl::StatusOr<Features> features) = 0;

  // The times of the last Expand, except its queue.
  [[nodiscard]] virtual const DraftTrace& last_trace() const = 0;
  [[nodiscard]] virtual int live_sequences() const = 0;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_DRAFTER_ENGINE_H_
