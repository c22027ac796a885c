#include "orchestrator/prior/learned_prior.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "common/base/data_file.h"
#include "common/base/status.h"
#include "common/hub/safetensors.h"
#include "common/hub/safetensors_writer.h"

namespace bastion {
namespace {

constexpr int64_t kVersion = 1;

}  // namespace

absl::StatusOr<LearnedPrior> LearnedPrior::Open(const std::string& path, int vocabulary) {
  RETURN_IF_ERROR(CheckDataFile(path));
  if (std::filesystem::exists(path)) {
    absl::StatusOr<LearnedPrior> read = Read(path, vocabulary);
    if (!absl::IsInvalidArgument(read.status())) return read;
    RETURN_IF_ERROR(hub::SetAside(path, read.status()));
  }
  LearnedPrior prior(path, vocabulary, ContinuationCounts(kMaxContexts));
  // Fails now rather than at the first save if the path is not writable.
  RETURN_IF_ERROR(hub::LogDiskError(prior.Save()));
  return prior;
}

absl::StatusOr<LearnedPrior> LearnedPrior::Read(const std::string& path, int vocabulary) {
  ASSIGN_OR_RETURN(const hub::SafetensorsFile file, hub::SafetensorsFile::Open(path));
  ASSIGN_OR_RETURN(const std::vector<int64_t> facts, hub::ReadVector<int64_t>(file, "facts"));
  if (facts.size() != 2 || facts[0] != kVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": not a learned prior of format version ", kVersion));
  }
  if (facts[1] != vocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": learned with a vocabulary of ", facts[1],
                     ", but the target has a vocabulary of ", vocabulary));
  }
  ContinuationCounts::Columns columns;
  ASSIGN_OR_RETURN(columns.hashes, hub::ReadVector<uint32_t>(file, "hashes"));
  ASSIGN_OR_RETURN(columns.totals, hub::ReadVector<float>(file, "totals"));
  ASSIGN_OR_RETURN(columns.sizes, hub::ReadVector<uint16_t>(file, "sizes"));
  ASSIGN_OR_RETURN(columns.tokens, hub::ReadVector<TokenId>(file, "tokens"));
  ASSIGN_OR_RETURN(columns.counts, hub::ReadVector<uint16_t>(file, "counts"));
  absl::StatusOr<ContinuationCounts> counts =
      ContinuationCounts::FromColumns(columns, kMaxContexts, vocabulary);
  if (!counts.ok()) return Annotate(counts.status(), path);
  return LearnedPrior(path, vocabulary, *std::move(counts));
}

namespace {

absl::Status Write(const ContinuationCounts& counts, int vocabulary, const std::string& path) {
  const ContinuationCounts::Columns columns = counts.ToColumns();
  const std::vector<int64_t> facts = {kVersion, vocabulary};
  return hub::WriteSafetensors(
      {hub::TensorOf("facts", facts), hub::TensorOf("hashes", columns.hashes),
       hub::TensorOf("totals", columns.totals), hub::TensorOf("tokens", columns.tokens),
       hub::TensorOf("counts", columns.counts), hub::TensorOf("sizes", columns.sizes)},
      path, hub::FileAccess::kOwner);
}

}  // namespace

absl::Status LearnedPrior::Save() const { return Write(counts_, vocabulary_, path_); }

void LearnedPrior::SaveIfDue(absl::Duration now) {
  if (counts_.added() == saved_added_ || !saver_.Due(now)) return;
  saved_added_ = counts_.added();
  saver_.Start([counts = counts_, vocabulary = vocabulary_, path = path_] {
    return Write(counts, vocabulary, path);
  });
}

}  // namespace bastion
