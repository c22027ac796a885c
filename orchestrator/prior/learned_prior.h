// LearnedPrior: the transition counts that all requests share, when that was asked for, and the
// file they outlive the process in.
//
// Off by default: what one tenant wrote changes how fast another's text comes, and so can be
// guessed from timing; and the file holds runs of up to three tokens of all requests, prompts
// included (its owner alone may read it). Texts never change. Bounded: 16 MiB.
//
// A safetensors file of facts I64 [2] (format version, vocabulary) and the columns of
// ContinuationCounts, flat; written whole beside the old one, whose place it then takes.
// Thread-compatible: the scheduler's thread.
#ifndef BASTION_ORCHESTRATOR_PRIOR_LEARNED_PRIOR_H_
#define BASTION_ORCHESTRATOR_PRIOR_LEARNED_PRIOR_H_

#include <cstdint>
#include <future>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "orchestrator/prior/continuation_counts.h"

namespace bastion {

class LearnedPrior {
 public:
  static constexpr size_t kMostContexts = size_t{1} << 18;
  static constexpr absl::Duration kSaveEvery = absl::Minutes(5);

  // Goes on where the file ends, or begins anew where there is none. INVALID_ARGUMENT for a file
  // that is damaged or of another version, FAILED_PRECONDITION for one of another vocabulary.
  [[nodiscard]] static absl::StatusOr<LearnedPrior> Open(const std::string& path, int vocabulary);

  [[nodiscard]] ContinuationCounts* counts() { return &counts_; }

  [[nodiscard]] absl::Status Save() const;
  // Saves a copy on a thread of its own when kSaveEvery has passed since it last did and there is
  // anything new. A failure is logged, and tried again when there is more.
  void SaveNowAndThen(absl::Duration now);
  // Waits until what is being saved is saved.
  void Await();

 private:
  LearnedPrior(std::string path, int vocabulary, ContinuationCounts counts)
      : path_(std::move(path)), vocabulary_(vocabulary), counts_(std::move(counts)) {}

  std::string path_;
  int vocabulary_;
  ContinuationCounts counts_;
  absl::Duration saved_at_;
  int64_t saved_ = 0;  // What had been added by then.
  std::future<void> saving_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_PRIOR_LEARNED_PRIOR_H_
