// ToolCallScanner: reads the JSON object of a tool call while it arrives: the name, and the
// arguments as far as they are there. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_OPENAI_TOOL_CALL_SCANNER_H_
#define BASTION_ORCHESTRATOR_OPENAI_TOOL_CALL_SCANNER_H_

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace bastion {

class ToolCallScanner {
 public:
  // Reads `text` up to the end of the object, or of its name: what follows depends on the name, and
  // not on how the text is split. Returns the bytes read. The first text begins with '{'.
  size_t Push(absl::string_view text);

  // The object has ended.
  [[nodiscard]] bool ended() const { return ended_; }
  // All text that was read.
  [[nodiscard]] const std::string& text() const { return text_; }
  // The name; nullopt before it is complete, or if there is none.
  [[nodiscard]] std::optional<std::string> name() const;
  // The part of the arguments that no call has returned yet. Arguments that are an object are
  // returned while they arrive, other ones at their end: the text of a string, or JSON.
  [[nodiscard]] std::string TakeArguments();
  // There is a field "arguments" or "parameters" whose value has begun.
  [[nodiscard]] bool has_arguments() const { return arguments_.has_value(); }

 private:
  struct Range {
    size_t begin;
    size_t end = std::string::npos;  // npos: the value has not ended.
  };

  [[nodiscard]] bool has_name() const { return name_ && name_->end != std::string::npos; }
  void Read(char c);
  // Inside the object itself, not in a value of it.
  void ReadTop(char c);
  void BeginValue();
  void EndValue(size_t end);
  [[nodiscard]] std::string StringAt(const Range& range) const;

  std::string text_;
  int depth_ = 0;  // The open objects and lists.
  bool in_string_ = false, escaped_ = false, ended_ = false;
  bool is_key_ = true;  // The next string of the object is a name of a field.
  std::string key_;
  Range string_ = {0};          // The last string of the object.
  std::optional<Range> value_;  // The value that is being read.
  std::optional<Range> name_, arguments_;
  size_t taken_ = 0;  // Bytes of the arguments.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_TOOL_CALL_SCANNER_H_
