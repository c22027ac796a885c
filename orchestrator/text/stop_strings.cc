#include "orchestrator/text/stop_strings.h"

#include <algorithm>

#include "common/base/status.h"

namespace bastion {

absl::StatusOr<StopStrings> StopStrings::Create(std::vector<std::string> stops, Matched matched) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) {
      return absl::InvalidArgumentError(absl::StrCat("stop string ", i, " is empty"));
    }
  }
  return StopStrings(std::move(stops), matched);
}

// The longest stop string whose last byte is just before `end`; null where none is.
const std::string* StopStrings::EndingAt(size_t end) const {
  const std::string_view text = std::string_view(held_).substr(0, end);
  const std::string* longest = nullptr;
  for (const std::string& stop : stops_) {
    if (text.ends_with(stop) && (longest == nullptr || stop.size() > longest->size())) {
      longest = &stop;
    }
  }
  return longest;
}

// Bytes at the end of held_ that begin some stop string without completing it.
size_t StopStrings::UndecidedSuffix() const {
  size_t undecided = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > undecided; --n) {
      if (std::string_view(held_).ends_with(std::string_view(stop).substr(0, n))) undecided = n;
    }
  }
  return undecided;
}

std::string StopStrings::Push(std::string_view piece) {
  if (stopped()) return "";
  const size_t decided = held_.size();
  held_ += piece;
  for (size_t end = decided + 1; end <= held_.size(); ++end) {
    const std::string* stop = EndingAt(end);
    if (stop == nullptr) continue;
    match_ = *stop;
    held_.resize(matched_ == Matched::kKept ? end : end - stop->size());
    return std::exchange(held_, "");
  }
  std::string certain = held_.substr(0, held_.size() - UndecidedSuffix());
  held_.erase(0, certain.size());
  return certain;
}

std::string StopStrings::Finish() { return std::exchange(held_, ""); }

}  // namespace bastion
