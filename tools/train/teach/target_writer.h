// TargetWriter: the target writes text after prompts, many texts at a time, with the serving
// engine. Not thread-safe.
#ifndef BASTION_TOOLS_TRAIN_TEACH_TARGET_WRITER_H_
#define BASTION_TOOLS_TRAIN_TEACH_TARGET_WRITER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/stages/sampling_params.h"
#include "engine/program/format_names.h"
#include "engine/program/local_device.h"
#include "tools/train/teach/teacher_text.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::train {

struct WriterOptions {
  std::string target;  // Folder or GGUF file.
  nn::FormatNames formats = {};
  nn::DeviceChoice device = {};
  int live = 64;              // Texts that are written at the same time.
  int max_prompt_tokens = 0;  // Tokens of the longest prompt.
  int max_new_tokens = 0;     // Most tokens that the target writes after a prompt.
};

// A text to write: a prompt, of at least one token.
struct WantedText {
  TeacherText text;
  ChoiceParams choice = {};
};

class TargetWriter {
 public:
  // INVALID_ARGUMENT if prompts and texts together exceed the target's context; the errors of
  // VerifierEngine::Create.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<TargetWriter>> Create(
      const WriterOptions& options);

  // Appends what the target writes to each text, up to a stop token, which is included. The result
  // does not depend on how many texts are live. Errors: the engine's.
  [[nodiscard]] absl::Status Write(absl::Span<WantedText> texts);

  // How many texts one call of Write should get: enough that few places are empty at its end.
  [[nodiscard]] int group() const { return 4 * options_.live; }
  [[nodiscard]] const std::vector<TokenId>& stop_tokens() const { return stops_; }

 private:
  struct Live {
    SequenceId sequence;
    WantedText* wanted;
  };
  explicit TargetWriter(const WriterOptions& options) : options_(options) {}

  // Opens sequences, and commits all but the last tokens of their prompts, the first roots.
  [[nodiscard]] absl::Status Begin(absl::Span<const Live> live);
  // The target writes a token of each text. Removes the texts that ended.
  [[nodiscard]] absl::Status Step(std::vector<Live>* live);
  [[nodiscard]] bool Ended(const TeacherText& text) const;

  const WriterOptions options_;
  std::vector<TokenId> stops_;
  nn::LocalDevice device_;
  std::unique_ptr<verifier::VerifierEngine> engine_;
  uint64_t last_session_ = 0;
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_TEACH_TARGET_WRITER_H_
