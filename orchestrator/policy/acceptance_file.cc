#include "orchestrator/policy/acceptance_file.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/data_file.h"
#include "common/base/status.h"
#include "common/hub/safetensors.h"
#include "common/hub/safetensors_writer.h"

namespace bastion {
namespace {

// Increase it too if the cells of AcceptanceCalibration change their meaning, or the terms of
// CandidateWeights their order.
constexpr int64_t kVersion = 2;

std::vector<uint32_t> BytesOf(const std::string& text) {
  std::vector<uint32_t> bytes;
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return bytes;
}

absl::StatusOr<std::string> ReadName(const hub::SafetensorsFile& file, const std::string& tensor) {
  ASSIGN_OR_RETURN(const std::vector<uint32_t> bytes, hub::ReadVector<uint32_t>(file, tensor));
  std::string name;
  for (const uint32_t byte : bytes) name.push_back(static_cast<char>(byte));
  return name;
}

absl::Status DamagedError(const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", what));
}

bool IsKey(int64_t mode, int64_t prior) {
  return mode >= 0 && mode <= static_cast<int64_t>(DraftMode::kCoupled) && prior >= 0 &&
         prior <= static_cast<int64_t>(Policy::Prior::kBoth);
}

// `counts` and `weights` are those of drafts, then those of the prior alone.
absl::Status ReadLearned(absl::Span<const float> counts, absl::Span<const float> weights,
                         SharedSpeculation* learned) {
  const size_t each = counts.size() / 2;
  ASSIGN_OR_RETURN(learned->draft_calibration,
                   AcceptanceCalibration::FromCounts(counts.first(each)));
  ASSIGN_OR_RETURN(learned->prior_calibration,
                   AcceptanceCalibration::FromCounts(counts.last(each)));
  const size_t weights_each = weights.size() / 2;
  ASSIGN_OR_RETURN(learned->draft_weights,
                   CandidateWeights::FromValues(weights.first(weights_each)));
  ASSIGN_OR_RETURN(learned->prior_weights,
                   CandidateWeights::FromValues(weights.last(weights_each)));
  return absl::OkStatus();
}

void Append(const std::vector<float>& values, std::vector<float>* to) {
  to->insert(to->end(), values.begin(), values.end());
}

}  // namespace

absl::StatusOr<AcceptanceFile::Contents> AcceptanceFile::Read(const std::string& path,
                                                              int vocabulary) {
  ASSIGN_OR_RETURN(const hub::SafetensorsFile file, hub::SafetensorsFile::Open(path));
  ASSIGN_OR_RETURN(const std::vector<int64_t> facts, hub::ReadVector<int64_t>(file, "facts"));
  const size_t each = AcceptanceCalibration::counts_size();
  if (facts.size() != 3 || facts[0] != kVersion || facts[2] != static_cast<int64_t>(each)) {
    return DamagedError(
        path, absl::StrCat("not a calibration of acceptance of format version ", kVersion));
  }
  if (facts[1] != vocabulary) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": learned with a vocabulary of ", facts[1],
                     ", but the target has a vocabulary of ", vocabulary));
  }
  Contents contents = {vocabulary, {}, {}};
  ASSIGN_OR_RETURN(contents.models.target, ReadName(file, "target"));
  ASSIGN_OR_RETURN(contents.models.drafter, ReadName(file, "drafter"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> keys, hub::ReadVector<int64_t>(file, "keys"));
  ASSIGN_OR_RETURN(const std::vector<float> counts, hub::ReadVector<float>(file, "counts"));
  ASSIGN_OR_RETURN(const std::vector<float> weights, hub::ReadVector<float>(file, "weights"));
  const size_t size = keys.size() / 3;
  constexpr size_t kWeights = CandidateWeights::values_size();
  if (keys.size() % 3 != 0 || counts.size() != 2 * size * each ||
      weights.size() != 2 * size * kWeights) {
    return DamagedError(path, absl::StrCat(counts.size(), " counts and ", weights.size(),
                                           " weights do not match ", size, " keys"));
  }
  for (size_t i = 0; i < size; ++i) {
    const int64_t mode = keys[3 * i], prior = keys[3 * i + 1];
    if (!IsKey(mode, prior)) return DamagedError(path, "it has an unknown key");
    SharedSpeculation& learned =
        contents.learned[{static_cast<DraftMode>(mode), static_cast<Policy::Prior>(prior)}];
    learned.weight_updates = std::max(int64_t{0}, keys[3 * i + 2]);
    if (const absl::Status read = ReadLearned(
            absl::MakeConstSpan(counts).subspan(2 * i * each, 2 * each),
            absl::MakeConstSpan(weights).subspan(2 * i * kWeights, 2 * kWeights), &learned);
        !read.ok()) {
      return DamagedError(path, std::string(read.message()));
    }
  }
  return contents;
}

absl::Status AcceptanceFile::Write(const Contents& contents, const std::string& path) {
  const std::vector<int64_t> facts = {kVersion, contents.vocabulary,
                                      static_cast<int64_t>(AcceptanceCalibration::counts_size())};
  const std::vector<uint32_t> target = BytesOf(contents.models.target);
  const std::vector<uint32_t> drafter = BytesOf(contents.models.drafter);
  std::vector<int64_t> keys;
  std::vector<float> counts, weights;
  for (const auto& [key, learned] : contents.learned) {
    keys.push_back(static_cast<int64_t>(key.first));
    keys.push_back(static_cast<int64_t>(key.second));
    keys.push_back(learned.weight_updates);
    Append(learned.draft_calibration.ToCounts(), &counts);
    Append(learned.prior_calibration.ToCounts(), &counts);
    Append(learned.draft_weights.ToValues(), &weights);
    Append(learned.prior_weights.ToValues(), &weights);
  }
  return hub::WriteSafetensors({hub::TensorOf("facts", facts), hub::TensorOf("target", target),
                                hub::TensorOf("drafter", drafter), hub::TensorOf("keys", keys),
                                hub::TensorOf("counts", counts), hub::TensorOf("weights", weights)},
                               path);
}

absl::StatusOr<AcceptanceFile> AcceptanceFile::Open(const std::string& path, int vocabulary) {
  RETURN_IF_ERROR(CheckDataFile(path));
  if (std::filesystem::exists(path)) {
    absl::StatusOr<Contents> contents = Read(path, vocabulary);
    if (contents.ok()) return AcceptanceFile(path, *std::move(contents));
    if (!absl::IsInvalidArgument(contents.status())) return contents.status();
    RETURN_IF_ERROR(hub::SetAside(path, contents.status()));
  }
  AcceptanceFile file(path, {vocabulary, {}, {}});
  // Fails now rather than at the first save if the path is not writable.
  RETURN_IF_ERROR(hub::LogDiskError(file.Save()));
  return file;
}

void AcceptanceFile::Restore(const Models& models, SharedLearning* memory) {
  Models& known = contents_.models;
  const bool same_target = known.target == models.target;
  const bool same_drafter =
      known.drafter == models.drafter || known.drafter.empty() || models.drafter.empty();
  if (!contents_.learned.empty() && !(same_target && same_drafter)) {
    LOG(WARNING) << path_ << ": ignored, because its counts belong to the target " << known.target
                 << " and the drafter " << known.drafter << "; the next save replaces them";
    contents_.learned.clear();
  }
  known.target = models.target;
  if (!models.drafter.empty()) known.drafter = models.drafter;
  if (memory == nullptr) return;
  for (const auto& [key, learned] : contents_.learned) {
    memory->at(key.first, key.second) = learned;
  }
}

void AcceptanceFile::Collect(const SharedLearning& memory) {
  for (const auto& [key, shared] : memory.shared()) contents_.learned[key] = shared;
}

void AcceptanceFile::SaveIfDue(absl::Duration now, const SharedLearning& memory) {
  if (!saver_.Due(now)) return;
  Collect(memory);
  saver_.Start([contents = contents_, path = path_] { return Write(contents, path); });
}

}  // namespace bastion
