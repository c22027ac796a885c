#include "verifier_service/engine/sequence_table.h"

#include "absl/strings/str_cat.h"

namespace bastion::verifier {

absl::Status SequenceTable::Open(SequenceId id, const SamplingParams& sampling) {
  const auto found = sequences_.find(id.session);
  if (found != sequences_.end()) {
    const uint32_t live = found->second.id.epoch;
    if (live == id.epoch) {
      return absl::AlreadyExistsError(
          absl::StrCat("sequence ", id.session, "@", id.epoch, " is already open"));
    }
    if (live > id.epoch) {
      return absl::FailedPreconditionError(absl::StrCat(
          "sequence ", id.session, ": epoch ", id.epoch, " is stale; epoch ", live, " is open"));
    }
    Close(found->second.id);
  }
  if (size() >= max_sequences_) {
    return absl::ResourceExhaustedError(
        absl::StrCat(max_sequences_, " sequences are already open; raise --max_sequences"));
  }
  sequences_[id.session] = {id, sampling, 0, {}, TokenHistory(sampling.prompt_tokens)};
  return absl::OkStatus();
}

absl::StatusOr<Sequence*> SequenceTable::Find(SequenceId id) {
  const auto found = sequences_.find(id.session);
  if (found == sequences_.end()) {
    return absl::NotFoundError(absl::StrCat("sequence ", id.session, "@", id.epoch,
                                            " is not open here (the verifier may have restarted)"));
  }
  if (found->second.id.epoch != id.epoch) {
    return absl::FailedPreconditionError(absl::StrCat("sequence ", id.session, ": epoch ", id.epoch,
                                                      " is stale; epoch ", found->second.id.epoch,
                                                      " is open"));
  }
  return &found->second;
}

bool SequenceTable::Close(SequenceId id) {
  const auto found = sequences_.find(id.session);
  if (found == sequences_.end() || found->second.id.epoch != id.epoch) return false;
  pages_.Shrink(found->second.table, 0);
  sequences_.erase(found);
  return true;
}

}  // namespace bastion::verifier
