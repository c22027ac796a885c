#include "orchestrator/text/stop_strings.h"

#include <algorithm>

#include "common/base/status.h"

namespace bastion {

absl::StatusOr<StopStrings> StopStrings::Create(const std::vector<std::string>& stops) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("stop string ", i, " is empty; remove it or add a character"));
    }
  }
  return StopStrings(stops);
}

const std::string* StopStrings::PushByte(char byte) {
  const std::string* longest = nullptr;
  for (StringMatcher& matcher : matchers_) {
    const bool completed = matcher.Push(byte);
    const std::string& stop = matcher.pattern();
    if (completed && (longest == nullptr || stop.size() > longest->size())) longest = &stop;
  }
  return longest;
}

std::string StopStrings::TakeFront(size_t bytes) {
  std::string front = held_.substr(first_held_, bytes);
  first_held_ += bytes;
  // Moves the rest only when at least as many bytes have been taken, so that a byte costs O(1).
  if (2 * first_held_ >= held_.size()) {
    held_.erase(0, first_held_);
    first_held_ = 0;
  }
  return front;
}

std::string StopStrings::Push(std::string_view piece) {
  if (stopped()) return "";
  for (const char byte : piece) {
    held_ += byte;
    const std::string* const stop = PushByte(byte);
    if (stop == nullptr) continue;
    match_ = *stop;
    std::string before = TakeFront(held_bytes() - stop->size());
    held_.clear();
    first_held_ = 0;
    return before;
  }
  size_t undecided = 0;
  for (const StringMatcher& matcher : matchers_) undecided = std::max(undecided, matcher.begun());
  return TakeFront(held_bytes() - undecided);
}

}  // namespace bastion
