#include "drafter_service/engine/draft_sequences.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

namespace bastion::drafter {

absl::StatusOr<DraftSequence*> DraftSequences::FindOrOpen(SequenceId id) {
  const auto found = sequences_.find(id.session);
  if (found != sequences_.end()) {
    if (found->second.id.epoch == id.epoch) return &found->second;
    if (found->second.id.epoch > id.epoch) {
      return absl::FailedPreconditionError(absl::StrCat("sequence ", id.session, ": epoch ",
                                                        id.epoch, " is stale; epoch ",
                                                        found->second.id.epoch, " is open"));
    }
    Close(found->second.id);
  }
  if (size() >= max_sequences_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(max_sequences_, " sequences are already open; raise --max_sequences"));
  }
  DraftSequence& sequence = sequences_[id.session];
  sequence.id = id;
  return &sequence;
}

void DraftSequences::Close(SequenceId id) {
  const auto found = sequences_.find(id.session);
  if (found == sequences_.end() || found->second.id.epoch != id.epoch) return;
  pages_->Shrink(found->second.table, 0);
  sequences_.erase(found);
}

void DraftSequences::ReusePrefix(const std::string& salt, DraftSequence& sequence) {
  if (!reuse_prefixes_ || sequence.prefix.has_value() || sequence.tokens.empty()) return;
  if (sequence.context > 0 || !sequence.table.pages.empty()) return;
  sequence.prefix = prefixes_.Begin(salt);
  sequence.context = prefixes_.Reuse(sequence.tokens, sequence.table, *sequence.prefix);
}

void DraftSequences::KeepPrefix(DraftSequence& sequence) {
  if (!sequence.prefix.has_value()) return;
  const auto tokens = absl::MakeConstSpan(sequence.tokens).subspan(0, sequence.context);
  (void)prefixes_.Add(tokens, sequence.table, *sequence.prefix);
}

absl::Status CheckOccursOnce(const Frontier& frontier, absl::flat_hash_set<uint64_t>& seen) {
  if (seen.insert(frontier.sequence.session).second) return absl::OkStatus();
  return absl::InvalidArgumentError("a session occurs twice in a call");
}

void AddNewTokens(const Frontier& frontier, DraftSequence& sequence) {
  const auto known = static_cast<Position>(sequence.tokens.size());
  const auto sent = static_cast<Position>(frontier.new_tokens.size());
  const int added = std::min(frontier.committed - known, sent);
  if (added <= 0 || frontier.committed - sent > known) return;
  sequence.tokens.insert(sequence.tokens.end(), frontier.new_tokens.end() - added,
                         frontier.new_tokens.end());
}

absl::Status CheckContext(const Frontier& frontier, const DraftSequence& sequence,
                          int max_context) {
  if (frontier.committed > max_context) {
    return absl::OutOfRangeError(absl::StrCat("the context has ", frontier.committed,
                                              " tokens, but this drafter supports at most ",
                                              max_context));
  }
  if (frontier.committed < sequence.context) {
    return absl::FailedPreconditionError(
        absl::StrCat("sequence ", frontier.sequence.session, ": ", sequence.context,
                     " context tokens are cached, but the frontier has only ", frontier.committed));
  }
  return absl::OkStatus();
}

}  // namespace bastion::drafter
