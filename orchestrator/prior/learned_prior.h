// LearnedPrior: continuation counts shared by all requests, and the file that preserves them across
// restarts. Optional; off by default. At most 16 MiB of memory, and as much again
// during a save.
//
// Privacy: the text of one tenant changes how fast another tenant's text is decoded, so timing can
// reveal it. The file contains runs of up to three tokens from all requests, including prompts;
// only its owner may read it. The generated text never depends on the counts.
//
// File format: safetensors with `facts` I64 [2] (format version, vocabulary) and the columns of
// ContinuationCounts, flattened. A save writes a new file and then renames it over the old one.
// Thread-compatible: used by the scheduler's thread.
#ifndef BASTION_ORCHESTRATOR_PRIOR_LEARNED_PRIOR_H_
#define BASTION_ORCHESTRATOR_PRIOR_LEARNED_PRIOR_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/periodic_save.h"
#include "orchestrator/prior/continuation_counts.h"

namespace bastion {

class LearnedPrior {
 public:
  static constexpr size_t kMaxContexts = size_t{1} << 18;

  // Loads the counts from the file, or creates a file with no counts if there is none. A damaged
  // file, or one of another format version or vocabulary, is set aside (hub::SetAside). If the disk
  // is full or fails, only logs that; otherwise returns the error of a file that cannot be written.
  [[nodiscard]] static absl::StatusOr<LearnedPrior> Open(const std::string& path, int vocabulary);

  [[nodiscard]] ContinuationCounts* counts() { return &counts_; }

  // Writes the file. Returns when it is written.
  [[nodiscard]] absl::Status Save() const;
  // Starts saving a copy on a background thread if there are new counts and a save is due
  // (periodic_save.h).
  void SaveIfDue(absl::Duration now);
  // Waits for the save that SaveIfDue started, if any.
  void WaitForSave() { saver_.Wait(); }

 private:
  // INVALID_ARGUMENT for a damaged file, another format version or another vocabulary.
  [[nodiscard]] static absl::StatusOr<LearnedPrior> Read(const std::string& path, int vocabulary);

  LearnedPrior(std::string path, int vocabulary, ContinuationCounts counts)
      : path_(std::move(path)), vocabulary_(vocabulary), counts_(std::move(counts)) {}

  std::string path_;
  int vocabulary_;
  ContinuationCounts counts_;
  int64_t saved_added_ = 0;  // counts_.added() at the last save.
  PeriodicSave saver_{"the learned prior"};
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_LEARNED_PRIOR_H_
