#include "orchestrator/openai/tool_call_reader.h"

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "orchestrator/openai/partial_marker.h"

namespace bastion {
namespace {

size_t LeadingSpace(absl::string_view text) {
  return text.size() - absl::StripLeadingAsciiWhitespace(text).size();
}

}  // namespace

absl::string_view ToolCallReader::marker() const {
  switch (options_.format) {
    case ToolFormat::kHermes:
      return kHermesBegin;
    case ToolFormat::kLlama:
      return kLlamaTag;
    case ToolFormat::kMistral:
      return kMistralTag;
  }
  return "";
}

bool ToolCallReader::Accepts(const std::string& name) const {
  // Text without a marker is a call only if it names a tool.
  return marked_ || options_.names.contains(name);
}

void ToolCallReader::EmitContent(absl::string_view text, ToolCallText* out) {
  const absl::string_view shown = absl::StripTrailingAsciiWhitespace(text);
  if (!shown.empty()) {
    absl::StrAppend(&out->content, std::exchange(held_, ""), shown);
  }
  absl::StrAppend(&held_, text.substr(shown.size()));
}

ToolCallText ToolCallReader::Push(absl::string_view text) {
  absl::StrAppend(&pending_, text);
  ToolCallText out;
  while (Step(&out)) {
  }
  return out;
}

bool ToolCallReader::Step(ToolCallText* out) {
  if (pending_.empty()) return false;
  switch (state_) {
    case State::kStart:
      return ReadStart(out);
    case State::kText:
      return ReadText(out);
    case State::kBetween:
      return ReadBetween(out);
    case State::kCall:
      return ReadCall(out);
  }
  return false;
}

// A call may begin without a marker, which may be a special token and not part of the text.
bool ToolCallReader::ReadStart(ToolCallText*) {
  const absl::string_view rest = absl::StripLeadingAsciiWhitespace(pending_);
  if (rest.empty()) return false;
  const bool is_list =
      options_.format == ToolFormat::kMistral && rest[0] == '[' && !absl::StartsWith(rest, "[T");
  if (rest[0] == '{' && options_.format != ToolFormat::kMistral) {
    state_ = State::kBetween;
  } else if (is_list) {
    const absl::string_view after = absl::StripLeadingAsciiWhitespace(rest.substr(1));
    if (after.empty()) return false;
    state_ = after[0] == '{' ? State::kBetween : State::kText;
  } else {
    state_ = State::kText;
  }
  return true;
}

bool ToolCallReader::ReadText(ToolCallText* out) {
  const size_t found = absl::string_view(pending_).find(marker());
  if (found != std::string::npos) {
    EmitContent(absl::string_view(pending_).substr(0, found), out);
    before_ = std::string(marker());
    marked_ = true;
    pending_.erase(0, found + marker().size());
    state_ = State::kBetween;
    return true;
  }
  const size_t safe = pending_.size() - PartialMarker(pending_, marker());
  EmitContent(absl::string_view(pending_).substr(0, safe), out);
  pending_.erase(0, safe);
  return false;
}

// Skips the text between a marker, or a call, and the next call.
bool ToolCallReader::ReadBetween(ToolCallText* out) {
  const absl::string_view pending = pending_;
  size_t skipped = LeadingSpace(pending);
  absl::string_view rest = pending.substr(skipped);
  if (rest.empty()) return false;
  if (options_.format == ToolFormat::kHermes && calls_ > 0 && before_.empty()) {
    // The end of the call before.
    if (absl::StartsWith(rest, kHermesEnd)) {
      pending_.erase(0, skipped + kHermesEnd.size());
      state_ = State::kText;
      return true;
    }
    if (absl::StartsWith(kHermesEnd, rest)) return false;
  }
  const bool is_separator =
      (options_.format == ToolFormat::kLlama && rest[0] == ';') ||
      (options_.format == ToolFormat::kMistral && absl::StrContains("[,]", rest.substr(0, 1)));
  if (is_separator) {
    const bool ends = rest[0] == ']';
    if (calls_ == 0) absl::StrAppend(&before_, pending.substr(0, skipped + 1));
    pending_.erase(0, skipped + 1);
    if (ends) {
      before_.clear();
      state_ = State::kText;
    }
    return true;
  }
  if (rest[0] == '{') {
    if (calls_ == 0 || !before_.empty()) absl::StrAppend(&before_, pending.substr(0, skipped));
    pending_.erase(0, skipped);
    scanner_.emplace();
    has_begun_ = false;
    state_ = State::kCall;
    return true;
  }
  EmitContent(std::exchange(before_, ""), out);
  state_ = State::kText;
  return true;
}

bool ToolCallReader::ReadCall(ToolCallText* out) {
  pending_.erase(0, scanner_->Push(pending_));
  EmitCall(out);
  if (!scanner_.has_value()) return true;
  if (!scanner_->ended()) return !pending_.empty();
  if (!has_begun_) {
    Reject(out);
    return true;
  }
  scanner_.reset();
  state_ = State::kBetween;
  return true;
}

void ToolCallReader::EmitCall(ToolCallText* out) {
  const std::optional<std::string> name = scanner_->name();
  if (!name) return;
  if (!Accepts(*name)) return Reject(out);
  const bool is_dropped = !options_.parallel && calls_ > (has_begun_ ? 1 : 0);
  if (!has_begun_) {
    if (!scanner_->has_arguments() && !scanner_->ended()) return;
    has_begun_ = true;
    held_.clear();  // White space before a call is not content.
    before_.clear();
    ++calls_;
    if (!is_dropped) out->calls.push_back({calls_ - 1, *name, ""});
  }
  std::string arguments = scanner_->TakeArguments();
  if (arguments.empty() && scanner_->ended() && !scanner_->has_arguments()) arguments = "{}";
  if (is_dropped || arguments.empty()) return;
  if (out->calls.empty() || out->calls.back().index != calls_ - 1) {
    out->calls.push_back({calls_ - 1, "", ""});
  }
  out->calls.back().arguments += arguments;
}

void ToolCallReader::Reject(ToolCallText* out) {
  EmitContent(absl::StrCat(std::exchange(before_, ""), scanner_->text()), out);
  scanner_.reset();
  state_ = State::kText;
}

ToolCallText ToolCallReader::Finish() {
  ToolCallText out;
  if (state_ == State::kCall && !has_begun_) Reject(&out);
  const bool is_between = state_ == State::kBetween && calls_ > 0 && before_.empty();
  if (!is_between) EmitContent(absl::StrCat(std::exchange(before_, ""), pending_), &out);
  pending_.clear();
  // White space at the end belongs to the content, unless a call came before it.
  if (calls_ == 0) out.content += held_;
  held_.clear();
  return out;
}

}  // namespace bastion
