#include "verifier_service/engine/call_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace bastion::verifier {
namespace {

int MaxDepth(const DraftTree& tree) {
  int depth = 0;
  for (NodeIndex i = 0; i < tree.rows(); ++i) depth = std::max(depth, tree.depth(i));
  return depth;
}

std::vector<int> Depths(const DraftTree& tree) {
  std::vector<int> depths(tree.rows());
  for (NodeIndex i = 0; i < tree.rows(); ++i) depths[i] = tree.depth(i);
  return depths;
}

}  // namespace

Acceptance TreeEntry::ToItemIndices(Acceptance acceptance) const {
  if (!replaced.has_value()) return acceptance;
  for (NodeIndex& node : acceptance.path) node = replaced->nodes[node];
  return acceptance;
}

absl::StatusOr<Sequence*> CallLayout::FindOnce(SequenceId id) {
  if (!seen_.insert(id.session).second) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", id.session, " occurs twice in one verify call"));
  }
  return sequences_.Find(id);
}

absl::Status CallLayout::CheckPosition(const Sequence& sequence, Position cached,
                                       int last_depth) const {
  if (cached != sequence.committed) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", sequence.id.session, ": ",
                                                      sequence.committed,
                                                      " tokens are committed, not ", cached));
  }
  if (cached + last_depth >= info_.max_context) {
    return absl::OutOfRangeError(absl::StrCat("sequence ", sequence.id.session, ": position ",
                                              cached + last_depth, " is past the context of ",
                                              info_.max_context, " tokens"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Sequence*> CallLayout::AdmitRoot(const VerifyItem& item) {
  ASSIGN_OR_RETURN(Sequence * sequence, FindOnce(item.sequence));
  RETURN_IF_ERROR(item.tree.Validate(info_.dims.vocabulary));
  RETURN_IF_ERROR(item.masks.Validate(item.tree.rows(), info_.dims.vocabulary));
  RETURN_IF_ERROR(CheckPosition(*sequence, item.cached, MaxDepth(item.tree)));
  RETURN_IF_ERROR(pages_.Reserve(sequence->table, item.cached + 1));
  return sequence;
}

absl::StatusOr<Sequence*> CallLayout::AdmitPrompt(const PrefillItem& item) {
  ASSIGN_OR_RETURN(Sequence * sequence, FindOnce(item.sequence));
  const auto count = static_cast<int>(item.tokens.size());
  if (count == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("sequence ", item.sequence.session, ": the prompt has no tokens"));
  }
  RETURN_IF_ERROR(CheckPosition(*sequence, item.cached, count - 1));
  for (const TokenId token : item.tokens) {
    if (token < 0 || token >= info_.dims.vocabulary) {
      return absl::InvalidArgumentError(absl::StrCat(
          "prompt token ", token, " is outside the vocabulary of ", info_.dims.vocabulary));
    }
  }
  RETURN_IF_ERROR(pages_.Reserve(sequence->table, item.cached + count));
  return sequence;
}

void CallLayout::AdmitNodes(TreeEntry& entry) const {
  const DraftTree& tree = entry.item->tree;
  if (pages_.Reserve(entry.sequence->table, entry.item->cached + tree.rows()).ok()) {
    entry.replaced = PutSpineFirst(tree);
  } else {
    entry.replaced = SpineFirst{DraftTree(tree.token(0)), {0}};
  }
}

void CallLayout::AddRows(TreeEntry& entry) {
  entry.first_row = batch_.rows();
  const DraftTree& tree = entry.tree();
  const nn::RowSpan span = {&entry.sequence->table, entry.item->cached, kernels::RowMask::kCausal};
  if (tree.IsChain()) {
    batch_.AddRun(span, tree.tokens());
  } else {
    batch_.AddTree(span, tree.tokens(), Depths(tree), tree.AncestorBits());
  }
}

void CallLayout::Add(const Forest& forest, absl::Span<const PrefillItem> prompts,
                     VerifyResult& result) {
  result.outcomes.resize(forest.size());
  result.prompts.resize(prompts.size());
  for (size_t i = 0; i < forest.size(); ++i) {
    const absl::StatusOr<Sequence*> sequence = AdmitRoot(forest[i]);
    result.outcomes[i].status = sequence.status();
    if (sequence.ok()) trees_.push_back({&forest[i], *sequence, &result.outcomes[i]});
  }
  for (TreeEntry& entry : trees_) {
    AdmitNodes(entry);
    AddRows(entry);
    result.trace.contexts.push_back(entry.item->cached);
  }
  for (size_t i = 0; i < prompts.size(); ++i) {
    const absl::StatusOr<Sequence*> sequence = AdmitPrompt(prompts[i]);
    result.prompts[i] = sequence.status();
    if (!sequence.ok()) continue;
    prompts_.push_back({&prompts[i], *sequence, &result.prompts[i]});
    batch_.AddRun({&(*sequence)->table, prompts[i].cached, kernels::RowMask::kCausal},
                  prompts[i].tokens);
    result.trace.contexts.push_back(prompts[i].cached);
  }
  result.trace.rows = batch_.rows();
}

void CallLayout::FailAll(const absl::Status& status) const {
  for (const TreeEntry& entry : trees_) entry.outcome->status = status;
  for (const PromptEntry& entry : prompts_) *entry.status = status;
}

void CallLayout::FreeUnusedPages() const {
  for (const TreeEntry& entry : trees_) {
    pages_.Shrink(entry.sequence->table, entry.sequence->committed);
  }
  for (const PromptEntry& entry : prompts_) {
    pages_.Shrink(entry.sequence->table, entry.sequence->committed);
  }
}

}  // namespace bastion::verifier
