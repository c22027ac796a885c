// The command `bastion-train teach`: the target continues prompts, and the texts become what a
// drafter learns from. The serving engine writes them, so they have the bits that a server would
// send, and the target's chat template.
#ifndef BASTION_TOOLS_TRAIN_TEACH_TEACH_H_
#define BASTION_TOOLS_TRAIN_TEACH_TEACH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/program/format_names.h"
#include "engine/program/local_device.h"

namespace bastion::train {

struct TeachOptions {
  std::string target;  // Folder or GGUF file.
  nn::FormatNames formats = {};
  nn::DeviceChoice device = {};
  std::string prompts;  // File of JSON lines (tools/bench/prompts.h).
  std::string template_args = "{}";
  std::string out;                              // Folder.
  std::vector<float> temperatures = {0, 0.8f};  // Prompt i gets the (i mod n)-th of them.
  uint64_t seed = 1;                            // Prompt i is sampled with seed + i.
  int max_new_tokens = 160;
  int live = 64;                                   // Texts that are written at the same time.
  absl::Duration time = absl::InfiniteDuration();  // No group of texts begins after this time.
};

// Writes teacher text to options.out, and prints a summary to standard output. If the folder has
// text that the same options made, continues after it: a stopped and continued run writes the text
// of an undisturbed one. Prompts may be added at the end of the file. FAILED_PRECONDITION if other
// options or other prompts made the text in the folder; the errors of LoadPrompts,
// ReadTeacherTexts, VerifierEngine::Create and of files.
[[nodiscard]] absl::Status Teach(const TeachOptions& options);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_TEACH_TEACH_H_
