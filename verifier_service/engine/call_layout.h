// CallLayout: the layout stage of one verify call. Decides which trees and prompts take part,
// reserves pages for them in the order that common/stages/stages.h states, and turns them into the
// rows of one forward. Thread-compatible; the engine creates one for each call.
#ifndef BASTION_VERIFIER_SERVICE_ENGINE_CALL_LAYOUT_H_
#define BASTION_VERIFIER_SERVICE_ENGINE_CALL_LAYOUT_H_

#include <optional>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/stages/stage_data.h"
#include "engine/model/row_batch.h"
#include "verifier_service/engine/sequence_table.h"
#include "verifier_service/verify/spine_first.h"
#include "verifier_service/verify/tree_rows.h"

namespace bastion::verifier {

// A tree of the forward.
struct TreeEntry {
  const VerifyItem* item = nullptr;
  Sequence* sequence = nullptr;
  VerifyOutcome* outcome = nullptr;
  int first_row = 0;
  // Set if the rows differ from the item's tree: in spine-first order, or the root alone.
  std::optional<SpineFirst> replaced = {};

  [[nodiscard]] const DraftTree& tree() const {
    return replaced.has_value() ? replaced->tree : item->tree;
  }
  [[nodiscard]] TreeRows Rows() const {
    return {.tree = &tree(),
            .cached = item->cached,
            .first_row = first_row,
            .sampling = &sequence->sampling,
            .history = &sequence->history,
            .table = &sequence->table,
            .masks = &item->masks,
            .sent_nodes = replaced.has_value() ? &replaced->nodes : nullptr};
  }
  // Converts the path of `acceptance` to node indices of the item's own tree.
  [[nodiscard]] Acceptance ToItemIndices(Acceptance acceptance) const;
};

// A prompt of the forward.
struct PromptEntry {
  const PrefillItem* item = nullptr;
  Sequence* sequence = nullptr;
  absl::Status* status = nullptr;
};

class CallLayout {
 public:
  CallLayout(const TargetInfo& info, SequenceTable& sequences, nn::PagePool& pages)
      : info_(info), sequences_(sequences), pages_(pages) {}

  // Lays out the items of the call. Sets the status of every item in `result`, and the rows and
  // contexts of its trace. The items and `result` must outlive this object. Call it once.
  void Add(const Forest& forest, absl::Span<const PrefillItem> prompts, VerifyResult& result);

  // Fails every tree and prompt of the forward.
  void FailAll(const absl::Status& status) const;
  // Frees the pages that the committed tokens do not need. Call it after the commit.
  void FreeUnusedPages() const;

  // The rows of trees(), then those of prompts().
  [[nodiscard]] const nn::RowBatch& batch() const { return batch_; }
  [[nodiscard]] const std::vector<TreeEntry>& trees() const { return trees_; }
  [[nodiscard]] const std::vector<PromptEntry>& prompts() const { return prompts_; }

 private:
  // The sequence `id`. INVALID_ARGUMENT if it has already occurred in this call.
  [[nodiscard]] absl::StatusOr<Sequence*> FindOnce(SequenceId id);
  // FAILED_PRECONDITION unless `cached` tokens are committed. OUT_OF_RANGE if position
  // `cached` + `last_depth` is past the context.
  [[nodiscard]] absl::Status CheckPosition(const Sequence& sequence, Position cached,
                                           int last_depth) const;
  // Check an item, and reserve pages for the root of the tree or for the prompt.
  [[nodiscard]] absl::StatusOr<Sequence*> AdmitRoot(const VerifyItem& item);
  [[nodiscard]] absl::StatusOr<Sequence*> AdmitPrompt(const PrefillItem& item);
  // Reserves pages for the nodes. If they do not fit, only the root is left of the tree.
  void AdmitNodes(TreeEntry& entry) const;
  void AddRows(TreeEntry& entry);

  const TargetInfo& info_;
  SequenceTable& sequences_;
  nn::PagePool& pages_;
  absl::flat_hash_set<uint64_t> seen_;  // Sessions.
  nn::RowBatch batch_;
  std::vector<TreeEntry> trees_;
  std::vector<PromptEntry> prompts_;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_ENGINE_CALL_LAYOUT_H_
