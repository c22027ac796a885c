// The command `bastion-train prior`: counts which tokens follow each token and each pair of tokens
// in texts, and writes the transition table that policies with +prior use.
#ifndef BASTION_TOOLS_TRAIN_PRIOR_PRIOR_H_
#define BASTION_TOOLS_TRAIN_PRIOR_PRIOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/train/prior/transition_counter.h"

namespace bastion::drafter {

struct PriorOptions {
  std::string target;  // Folder or GGUF file. Only its config and tokenizer are read.
  std::string out;     // Folder for transition_prior.safetensors.
  std::vector<std::string> files;
  TransitionLimits limits = {};
  int64_t max_counted = TransitionCounter::kMaxCounted;
};

// Prints a summary to standard output. INVALID_ARGUMENT for files that cannot be read, no text or
// wrong limits; NOT_FOUND without the folder.
[[nodiscard]] absl::Status WritePrior(const PriorOptions& options);

}  // namespace bastion::drafter

#endif  // BASTION_TOOLS_TRAIN_PRIOR_PRIOR_H_
