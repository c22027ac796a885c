// ToolCallReader: splits the text of an answer into content and calls of tools, while it arrives.
// What only looks like a call stays content. Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_OPENAI_TOOL_CALL_READER_H_
#define BASTION_ORCHESTRATOR_OPENAI_TOOL_CALL_READER_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "orchestrator/openai/tool_call_scanner.h"
#include "orchestrator/openai/tool_format.h"

namespace bastion {

// A part of a call. The first part of a call has its name.
struct ToolCallDelta {
  int index = 0;  // The number of the call in the answer.
  std::string name;
  std::string arguments;
};

struct ToolCallText {
  std::string content;
  std::vector<ToolCallDelta> calls;
};

class ToolCallReader {
 public:
  struct Options {
    ToolFormat format = ToolFormat::kHermes;
    std::set<std::string> names = {};  // The names of the tools.
    bool parallel = true;              // False: calls after the first are dropped.
  };

  explicit ToolCallReader(Options options) : options_(std::move(options)) {}

  // Returns what `text` adds. Text that may become a call is held back.
  [[nodiscard]] ToolCallText Push(absl::string_view text);
  // Returns what was held back, at the end of the answer. The begin of a call that was cut stays.
  [[nodiscard]] ToolCallText Finish();

  // The calls so far.
  [[nodiscard]] int calls() const { return calls_; }

 private:
  enum class State {
    kStart,    // Before the first text: Llama's and Mistral's calls begin there.
    kText,     // Content, up to a marker.
    kBetween,  // After a marker or a call: the object of a call may follow.
    kCall,     // In the object of a call.
  };

  // Reads a part of pending_. False if it needs more text.
  bool Step(ToolCallText* out);
  bool ReadStart(ToolCallText* out);
  bool ReadText(ToolCallText* out);
  bool ReadBetween(ToolCallText* out);
  bool ReadCall(ToolCallText* out);
  // Emits what has arrived of the call.
  void EmitCall(ToolCallText* out);
  // The call is none: its text is content.
  void Reject(ToolCallText* out);
  void EmitContent(absl::string_view text, ToolCallText* out);
  // Whether a call with this name is one.
  [[nodiscard]] bool Accepts(const std::string& name) const;
  [[nodiscard]] absl::string_view marker() const;

  const Options options_;
  State state_ = State::kStart;
  std::string pending_;  // Not read yet.
  std::string held_;     // White space after content, which may come before a call.
  std::string before_;   // The text between content and the call that is being read.
  bool marked_ = false;  // A marker was read: what follows is a call, whatever its name.
  std::optional<ToolCallScanner> scanner_;
  bool has_begun_ = false;  // The name of the call was emitted.
  int calls_ = 0;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_TOOL_CALL_READER_H_
