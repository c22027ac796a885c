#include "drafter_service/engine/draft_sequences.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "common/base/check.h"

namespace bastion::drafter {

DraftSequence* DraftSequences::Find(SequenceId id) {
  const auto found = sequences_.find(id.session);
  return found != sequences_.end() && found->second.id == id ? &found->second : nullptr;
}

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
  if (size() >= options_.max_sequences) {
    return absl::ResourceExhaustedError(
        absl::StrCat(options_.max_sequences, " sequences are already open; raise --max_sequences"));
  }
  DraftSequence& sequence = sequences_[id.session];
  sequence.id = id;
  return &sequence;
}

void DraftSequences::Close(SequenceId id) {
  DraftSequence* const sequence = Find(id);
  if (sequence == nullptr) return;
  if (sequence->pieces == DraftSequence::Pieces::kQueued) std::erase(queue_, id);
  pages_->Shrink(sequence->table, 0);
  sequences_.erase(id.session);
}

void DraftSequences::ReusePrefix(const std::string& salt, DraftSequence& sequence) {
  if (!options_.reuse_prefixes || sequence.prefix.has_value() || sequence.tokens.empty()) return;
  if (sequence.context > 0 || !sequence.table.pages.empty()) return;
  // A piece that is being read continues the context that the sequence had when the piece began.
  if (sequence.pieces != DraftSequence::Pieces::kNone) return;
  sequence.prefix = prefixes_.Begin(salt);
  sequence.context = prefixes_.Reuse(sequence.tokens, sequence.table, *sequence.prefix);
}

void DraftSequences::KeepPrefix(DraftSequence& sequence) {
  if (!sequence.prefix.has_value()) return;
  const auto tokens = absl::MakeConstSpan(sequence.tokens).subspan(0, sequence.context);
  (void)prefixes_.Add(tokens, sequence.table, *sequence.prefix);
}

bool DraftSequences::Defer(DraftSequence& sequence, Position committed) {
  if (!options_.defer_catch_up) return false;
  const int missing = committed - sequence.context;
  if (sequence.pieces == DraftSequence::Pieces::kNone) {
    if (missing <= kCycleRows) return false;
    if (missing <= room_) {
      room_ -= missing;
      return false;
    }
    const int held = static_cast<int>(sequence.table.pages.size());
    if (nn::PagesFor(committed) - held > pages_->free_pages()) {
      GiveBackPages(sequence);
      if (!std::exchange(sequence.warned, true)) {
        LOG(WARNING) << "no draft: too few pages are free for " << committed
                     << " tokens; raise --kv_tokens or lower the number of live sequences";
      }
      return true;
    }
    queue_.push_back(sequence.id);
    sequence.pieces = DraftSequence::Pieces::kQueued;
    sequence.catch_up_to = committed;
  }
  sequence.catch_up_to = std::max(sequence.catch_up_to, committed);
  return true;
}

FeatureRange DraftSequences::NextPiece() {
  DraftSequence& sequence = *Find(queue_.front());
  queue_.pop_front();
  sequence.pieces = DraftSequence::Pieces::kReading;
  return {sequence.id, sequence.context,
          std::min(kPieceRows, sequence.catch_up_to - sequence.context)};
}

DraftSequence* DraftSequences::EndPiece(const FeatureRange& piece) {
  DraftSequence* const sequence = Find(piece.sequence);
  if (sequence == nullptr || sequence->pieces != DraftSequence::Pieces::kReading) return nullptr;
  sequence->pieces = DraftSequence::Pieces::kNone;
  return sequence;
}

void DraftSequences::GiveBackPages(DraftSequence& sequence) {
  pages_->Shrink(sequence.table, 0);
  sequence.context = 0;
  sequence.prefix.reset();
}

void DraftSequences::FinishPiece(const absl::Status& appended, DraftSequence& sequence) {
  if (absl::IsResourceExhausted(appended)) GiveBackPages(sequence);
  if (!appended.ok() && !absl::IsAborted(appended)) return;
  if (sequence.context >= sequence.catch_up_to) return;
  queue_.push_back(sequence.id);
  sequence.pieces = DraftSequence::Pieces::kQueued;
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
