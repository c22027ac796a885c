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

std::vector<TokenId> DraftSequences::RowTokens(const DraftSequence& sequence, size_t limit) const {
  const size_t first = options_.first_token;
  const size_t end = std::min(sequence.tokens.size(), first + limit);
  std::vector<TokenId> rows;
  for (size_t i = first; i < end; ++i) {
    rows.insert(rows.end(), options_.rows_per_token, sequence.tokens[i]);
  }
  return rows;
}

void DraftSequences::ReusePrefix(const std::string& salt, DraftSequence& sequence) {
  if (!reuses_prefixes() || sequence.prefix.has_value()) return;
  if (static_cast<int>(sequence.tokens.size()) <= options_.first_token) return;
  if (sequence.context > 0 || !sequence.table.pages.empty()) return;
  // A piece that is being read continues the context that the sequence had when the piece began.
  if (sequence.pieces != DraftSequence::Pieces::kNone) return;
  std::string own_salt = salt;
  for (int i = 0; i < options_.first_token; ++i)
    absl::StrAppend(&own_salt, "/", sequence.tokens[i]);
  sequence.prefix = prefixes_.Begin(own_salt);
  const std::vector<TokenId> tokens = RowTokens(sequence, sequence.tokens.size());
  const int rows = prefixes_.Reuse(tokens, sequence.table, *sequence.prefix);
  sequence.context = rows / options_.rows_per_token;
}

void DraftSequences::KeepPrefix(DraftSequence& sequence) {
  if (!sequence.prefix.has_value()) return;
  const std::vector<TokenId> tokens = RowTokens(sequence, sequence.context);
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
    if (nn::PagesFor(committed * options_.rows_per_token) - held > pages_->free_pages()) {
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

bool LacksFeatures(const absl::Status& error) {
  return absl::IsDeadlineExceeded(error) || absl::IsUnavailable(error);
}

absl::Status CheckOccursOnce(const Frontier& frontier, absl::flat_hash_set<uint64_t>& seen) {
  if (seen.insert(frontier.sequence.session).second) return absl::OkStatus();
  return absl::InvalidArgumentError("a session occurs twice in a call");
}

absl::Status CheckTokens(const Frontier& frontier, int vocabulary) {
  const auto valid = [vocabulary](TokenId token) { return token >= 0 && token < vocabulary; };
  bool all_valid = valid(frontier.root) && frontier.candidates > 0 && frontier.committed >= 0;
  for (const auto& path : frontier.paths) {
    all_valid = all_valid && std::all_of(path.begin(), path.end(), valid);
  }
  const auto& tokens = frontier.new_tokens;
  if (all_valid && std::all_of(tokens.begin(), tokens.end(), valid)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("frontier of sequence ", frontier.sequence.session,
                   ": all tokens must be in [0, ", vocabulary, "), the number of candidates, ",
                   frontier.candidates, ", must be positive, and that of committed ", "tokens, ",
                   frontier.committed, ", not negative"));
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
