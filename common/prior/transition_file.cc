#include "common/prior/transition_file.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "common/hub/safetensors.h"
#include "common/hub/safetensors_writer.h"

namespace bastion::hub {
namespace {

// Returns the vocabulary size.
absl::StatusOr<int> ReadFacts(const SafetensorsFile& file) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> facts, ReadVector<int64_t>(file, "facts"));
  const auto invalid = [&](const char* what, int64_t value) {
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), ": tensor 'facts': ", what, value,
                     "; create the file again with bastion-train prior"));
  };
  if (facts.empty() || facts[0] != kTransitionFileVersion) {
    return invalid("expected format version 1, got ", facts.empty() ? 0 : facts[0]);
  }
  if (facts.size() != 2) {
    return invalid("expected 2 entries, got ", static_cast<int64_t>(facts.size()));
  }
  if (facts[1] < 1 || facts[1] > std::numeric_limits<int>::max()) {
    return invalid("expected a vocabulary of 1 to 2^31 - 1 tokens, got ", facts[1]);
  }
  return static_cast<int>(facts[1]);
}

}  // namespace

absl::StatusOr<TransitionTable> ReadTransitionTable(const std::string& path) {
  ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  TransitionTable::Columns columns;
  ASSIGN_OR_RETURN(columns.vocabulary, ReadFacts(file));
  ASSIGN_OR_RETURN(columns.occurrences, ReadVector<uint32_t>(file, "occurrences"));
  ASSIGN_OR_RETURN(columns.pairs, ReadVector<uint64_t>(file, "pairs"));
  ASSIGN_OR_RETURN(columns.totals, ReadVector<uint32_t>(file, "totals"));
  ASSIGN_OR_RETURN(columns.offsets, ReadVector<uint32_t>(file, "offsets"));
  ASSIGN_OR_RETURN(columns.tokens, ReadVector<TokenId>(file, "tokens"));
  ASSIGN_OR_RETURN(columns.counts, ReadVector<uint16_t>(file, "counts"));
  absl::StatusOr<TransitionTable> table = TransitionTable::Make(std::move(columns));
  if (!table.ok()) return Annotate(table.status(), path);
  return table;
}

absl::Status WriteTransitionTable(const TransitionTable& table, const std::string& path) {
  const TransitionTable::Columns& columns = table.columns();
  const std::vector<int64_t> facts = {kTransitionFileVersion, columns.vocabulary};
  return WriteSafetensors({TensorOf("facts", facts), TensorOf("pairs", columns.pairs),
                           TensorOf("occurrences", columns.occurrences),
                           TensorOf("totals", columns.totals), TensorOf("offsets", columns.offsets),
                           TensorOf("tokens", columns.tokens), TensorOf("counts", columns.counts)},
                          path);
}

absl::StatusOr<std::unique_ptr<const TransitionTable>> FindTransitionTable(const std::string& path,
                                                                           int vocabulary) {
  std::string file = path;
  if (std::filesystem::is_directory(path)) {
    file = absl::StrCat(path, "/", kTransitionFileName);
    if (!std::filesystem::exists(file)) return nullptr;
  }
  ASSIGN_OR_RETURN(TransitionTable table, ReadTransitionTable(file));
  if (table.vocabulary() != vocabulary) {
    return absl::FailedPreconditionError(
        absl::StrCat(file, ": the table has a vocabulary of ", table.vocabulary(),
                     " tokens, but the target has ", vocabulary,
                     "; create a table for this target with bastion-train prior"));
  }
  return std::make_unique<const TransitionTable>(std::move(table));
}

absl::StatusOr<std::unique_ptr<const TransitionTable>> RequireTransitionTable(
    const std::string& path, int vocabulary) {
  ASSIGN_OR_RETURN(auto table, FindTransitionTable(path, vocabulary));
  if (table != nullptr) return table;
  return absl::NotFoundError(
      absl::StrCat(path, " has no ", kTransitionFileName, "; create it with bastion-train prior"));
}

}  // namespace bastion::hub
