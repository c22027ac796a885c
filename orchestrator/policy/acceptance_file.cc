#include "orchestrator/policy/acceptance_file.h"

#include <filesystem>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/hub/safetensors.h"
#include "common/hub/safetensors_writer.h"

namespace bastion {
namespace {

// Increase it too if the cells of AcceptanceCalibration change their meaning.
constexpr int64_t kVersion = 1;

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
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": ", what, "; remove the file to start with empty counts"));
}

bool IsKey(int64_t mode, int64_t prior) {
  return mode >= 0 && mode <= static_cast<int64_t>(DraftMode::kCoupled) && prior >= 0 &&
         prior <= static_cast<int64_t>(Policy::Prior::kBoth);
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
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": learned with a vocabulary of ", facts[1],
                     ", but the target has a vocabulary of ", vocabulary, "; use another file"));
  }
  Contents contents = {vocabulary, {}, {}};
  ASSIGN_OR_RETURN(contents.models.target, ReadName(file, "target"));
  ASSIGN_OR_RETURN(contents.models.drafter, ReadName(file, "drafter"));
  ASSIGN_OR_RETURN(const std::vector<int64_t> keys, hub::ReadVector<int64_t>(file, "keys"));
  ASSIGN_OR_RETURN(const std::vector<float> counts, hub::ReadVector<float>(file, "counts"));
  if (keys.size() % 2 != 0 || counts.size() != keys.size() * each) {
    return DamagedError(
        path, absl::StrCat(counts.size(), " counts do not match ", keys.size() / 2, " keys"));
  }
  for (size_t i = 0; i < keys.size(); i += 2) {
    if (!IsKey(keys[i], keys[i + 1])) return DamagedError(path, "it has an unknown key");
    const auto of = absl::MakeConstSpan(counts).subspan(i * each, 2 * each);
    auto draft = AcceptanceCalibration::FromCounts(of.first(each));
    auto prior = AcceptanceCalibration::FromCounts(of.last(each));
    for (const auto* read : {&draft, &prior}) {
      if (!read->ok()) return DamagedError(path, std::string(read->status().message()));
    }
    contents.calibrations[{static_cast<DraftMode>(keys[i]),
                           static_cast<Policy::Prior>(keys[i + 1])}] = {*draft, *prior};
  }
  return contents;
}

absl::Status AcceptanceFile::Write(const Contents& contents, const std::string& path) {
  const std::vector<int64_t> facts = {kVersion, contents.vocabulary,
                                      static_cast<int64_t>(AcceptanceCalibration::counts_size())};
  const std::vector<uint32_t> target = BytesOf(contents.models.target);
  const std::vector<uint32_t> drafter = BytesOf(contents.models.drafter);
  std::vector<int64_t> keys;
  std::vector<float> counts;
  for (const auto& [key, calibrations] : contents.calibrations) {
    keys.push_back(static_cast<int64_t>(key.first));
    keys.push_back(static_cast<int64_t>(key.second));
    for (const AcceptanceCalibration* one : {&calibrations.draft, &calibrations.prior}) {
      const std::vector<float> values = one->ToCounts();
      counts.insert(counts.end(), values.begin(), values.end());
    }
  }
  return hub::WriteSafetensors({hub::TensorOf("facts", facts), hub::TensorOf("target", target),
                                hub::TensorOf("drafter", drafter), hub::TensorOf("keys", keys),
                                hub::TensorOf("counts", counts)},
                               path);
}

absl::StatusOr<AcceptanceFile> AcceptanceFile::Open(const std::string& path, int vocabulary) {
  if (std::filesystem::exists(path)) {
    ASSIGN_OR_RETURN(Contents contents, Read(path, vocabulary));
    return AcceptanceFile(path, std::move(contents));
  }
  AcceptanceFile file(path, {vocabulary, {}, {}});
  // Fails now rather than at the first save if the path is not writable.
  RETURN_IF_ERROR(file.Save());
  return file;
}

void AcceptanceFile::Restore(const Models& models, SpeculationMemory* memory) {
  Models& known = contents_.models;
  const bool same_target = known.target == models.target;
  const bool same_drafter =
      known.drafter == models.drafter || known.drafter.empty() || models.drafter.empty();
  if (!contents_.calibrations.empty() && !(same_target && same_drafter)) {
    LOG(WARNING) << path_ << ": ignored, because its counts belong to the target " << known.target
                 << " and the drafter " << known.drafter << "; the next save replaces them";
    contents_.calibrations.clear();
  }
  known.target = models.target;
  if (!models.drafter.empty()) known.drafter = models.drafter;
  if (memory == nullptr) return;
  for (const auto& [key, calibrations] : contents_.calibrations) {
    SharedSpeculation& shared = memory->at(key.first, key.second);
    shared.draft_calibration = calibrations.draft;
    shared.prior_calibration = calibrations.prior;
  }
}

void AcceptanceFile::Collect(const SpeculationMemory& memory) {
  for (const auto& [key, shared] : memory.shared()) {
    contents_.calibrations[key] = {shared.draft_calibration, shared.prior_calibration};
  }
}

void AcceptanceFile::SaveIfDue(absl::Duration now, const SpeculationMemory& memory) {
  if (!saver_.Due(now)) return;
  Collect(memory);
  saver_.Start([contents = contents_, path = path_] { return Write(contents, path); });
}

}  // namespace bastion
