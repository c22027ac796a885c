// AcceptanceFile: the file that preserves the calibration of acceptance (acceptance_calibration.h)
// across restarts, and the weights of the prior's candidates (candidate_weights.h), because the
// calibration is only right for the probabilities that these weights give. It contains no text.
//
// The counts belong to one target and one drafter. Counts of other models are ignored with a log
// line, and replaced by the next save.
//
// File format: safetensors with `facts` I64 [3] (format version, vocabulary, counts per
// calibration), the names of `target` and `drafter` as U32 [bytes], `keys` I64 [3·N] (DraftMode,
// Policy::Prior and SharedSpeculation::weight_updates), `counts` F32 and `weights` F32 (for each
// key, those of drafts and those of the prior alone). A save writes a new file and then renames it
// over the old one. Thread-compatible: used by the cycle's thread.
#ifndef BASTION_ORCHESTRATOR_POLICY_ACCEPTANCE_FILE_H_
#define BASTION_ORCHESTRATOR_POLICY_ACCEPTANCE_FILE_H_

#include <map>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/periodic_save.h"
#include "orchestrator/policy/shared_learning.h"

namespace bastion {

class AcceptanceFile {
 public:
  // The models that the counts belong to.
  struct Models {
    std::string target;   // TargetInfo::model
    std::string drafter;  // DrafterInfo::model. Empty: not known, it may be any.
  };

  // Loads the counts from the file, or creates a file without counts if there is none. A damaged
  // file, or one of another format version or vocabulary, is set aside (hub::SetAside). If the disk
  // is full or fails, only logs that; otherwise returns the error of a file that cannot be written.
  [[nodiscard]] static absl::StatusOr<AcceptanceFile> Open(const std::string& path, int vocabulary);

  // Gives the counts to `memory`, unless it is null, if they belong to `models`. Else forgets them.
  void Restore(const Models& models, SharedLearning* memory);
  // Takes the counts of `memory`, which belong to the models of the last Restore.
  void Collect(const SharedLearning& memory);

  // Writes what was collected. Returns when it is written.
  [[nodiscard]] absl::Status Save() const { return Write(contents_, path_); }
  // Collects, and starts saving a copy on a background thread, if a save is due (periodic_save.h).
  void SaveIfDue(absl::Duration now, const SharedLearning& memory);
  // Waits for the save that SaveIfDue started, if any.
  void WaitForSave() { saver_.Wait(); }

 private:
  struct Contents {
    int vocabulary = 0;
    Models models;
    std::map<SharedLearning::Key, SharedSpeculation> learned;
  };

  AcceptanceFile(std::string path, Contents contents)
      : path_(std::move(path)), contents_(std::move(contents)) {}

  // INVALID_ARGUMENT for a damaged file, another format version or another vocabulary.
  [[nodiscard]] static absl::StatusOr<Contents> Read(const std::string& path, int vocabulary);
  [[nodiscard]] static absl::Status Write(const Contents& contents, const std::string& path);

  std::string path_;
  Contents contents_;
  PeriodicSave saver_{"the calibration of acceptance"};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_POLICY_ACCEPTANCE_FILE_H_
