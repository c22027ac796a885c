#include "orchestrator/openai/reasoning_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "orchestrator/openai/partial_marker.h"

namespace bastion {

ReasoningReader::ReasoningReader(ReasoningStart start)
    : state_(start == ReasoningStart::kHasBegun   ? State::kReasoning
             : start == ReasoningStart::kMayBegin ? State::kStart
                                                  : State::kRest),
      has_reasoning_(start == ReasoningStart::kHasBegun) {}

void ReasoningReader::EmitReasoning(absl::string_view text, ReasoningText* out) {
  if (!has_text_) text.remove_prefix(std::min(text.find_first_not_of('\n'), text.size()));
  if (text.empty()) return;
  has_text_ = true;
  const size_t last = text.find_last_not_of('\n');
  const size_t shown = last == absl::string_view::npos ? 0 : last + 1;
  if (shown > 0) absl::StrAppend(&out->reasoning, std::exchange(held_, ""), text.substr(0, shown));
  absl::StrAppend(&held_, text.substr(shown));
}

ReasoningText ReasoningReader::Push(absl::string_view text) {
  absl::StrAppend(&pending_, text);
  ReasoningText out;
  if (state_ == State::kStart) {
    const absl::string_view begin = absl::StripLeadingAsciiWhitespace(pending_);
    if (begin.size() < kThinkBegin.size() && absl::StartsWith(kThinkBegin, begin)) return out;
    has_reasoning_ = absl::StartsWith(begin, kThinkBegin);
    state_ = has_reasoning_ ? State::kReasoning : State::kRest;
    if (has_reasoning_) pending_.erase(0, pending_.size() - begin.size() + kThinkBegin.size());
  }
  if (state_ == State::kReasoning) {
    const size_t end = absl::string_view(pending_).find(kThinkEnd);
    const bool has_end = end != std::string::npos;
    const size_t safe = has_end ? end : pending_.size() - PartialMarker(pending_, kThinkEnd);
    EmitReasoning(absl::string_view(pending_).substr(0, safe), &out);
    pending_.erase(0, has_end ? end + kThinkEnd.size() : safe);
    if (!has_end) return out;
    state_ = State::kAfter;
  }
  if (state_ == State::kAfter) {
    pending_.erase(0, std::min(pending_.find_first_not_of('\n'), pending_.size()));
    if (!pending_.empty()) state_ = State::kRest;
  }
  out.rest = std::exchange(pending_, "");
  return out;
}

ReasoningText ReasoningReader::Finish() {
  ReasoningText out;
  if (state_ == State::kReasoning) {
    EmitReasoning(std::exchange(pending_, ""), &out);
  } else {
    out.rest = std::exchange(pending_, "");
  }
  return out;
}

}  // namespace bastion
