// The command `bastion-train turns`: a chat model writes what its users might ask, as prompts for
// `bastion-train teach`. The model continues its chat template from where a user's message begins
// (as in Magpie, Xu et al., arXiv 2406.08464), so the turns look like those that it was trained on.
#ifndef BASTION_TOOLS_TRAIN_TEACH_USER_TURNS_H_
#define BASTION_TOOLS_TRAIN_TEACH_USER_TURNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "engine/program/format_names.h"
#include "engine/program/local_device.h"

namespace bastion::train {

struct TurnsOptions {
  std::string target;  // Folder or GGUF file.
  nn::FormatNames formats = {};
  nn::DeviceChoice device = {};
  std::string template_args = "{}";
  std::string out;  // File of JSON lines {"id", "messages"}.
  int count = 1000;
  float temperature = 1;
  uint64_t seed = 1;
  int max_new_tokens = 64;  // Longer turns are left out.
  int live = 64;
};

// The beginning of a conversation, up to where the user's first message begins. NOT_FOUND without a
// chat template; INVALID_ARGUMENT if the template does not show the message.
[[nodiscard]] absl::StatusOr<std::string> TextBeforeUserTurn(const std::string& target,
                                                             const std::string& template_args);

// Writes the turns that ended and are not empty, each only once, and prints a summary to standard
// output. Errors: those of TextBeforeUserTurn and TargetWriter; UNAVAILABLE if the file cannot be
// written.
[[nodiscard]] absl::Status WriteUserTurns(const TurnsOptions& options);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_TEACH_USER_TURNS_H_
