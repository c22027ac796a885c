// ReasoningReader: splits the text of an answer into the reasoning between think tags and the rest,
// while it arrives. Line breaks next to the tags belong to neither. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_OPENAI_REASONING_READER_H_
#define BASTION_ORCHESTRATOR_OPENAI_REASONING_READER_H_

#include <string>

#include "absl/strings/string_view.h"
#include "orchestrator/intake/reasoning.h"

namespace bastion {

struct ReasoningText {
  std::string reasoning, rest;
};

class ReasoningReader {
 public:
  explicit ReasoningReader(ReasoningStart start);

  // Returns what `text` adds. Text that may be part of a tag is held back.
  [[nodiscard]] ReasoningText Push(absl::string_view text);
  // Returns what was held back, at the end of the answer. Reasoning that was cut stays reasoning.
  [[nodiscard]] ReasoningText Finish();

  // The reasoning, if there is any, has not ended.
  [[nodiscard]] bool reading() const {
    return state_ == State::kStart || state_ == State::kReasoning;
  }
  // There was reasoning.
  [[nodiscard]] bool has_reasoning() const { return has_reasoning_; }

 private:
  enum class State { kStart, kReasoning, kAfter, kRest };

  void EmitReasoning(absl::string_view text, ReasoningText* out);

  State state_;
  bool has_reasoning_;
  bool has_text_ = false;  // The reasoning is not empty so far.
  std::string pending_;    // Not read yet.
  std::string held_;       // Line breaks of the reasoning, which may be its last ones.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_REASONING_READER_H_
