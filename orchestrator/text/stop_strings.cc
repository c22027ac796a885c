#include "orchestrator/text/stop_strings.h"

#include <algorithm>

#include "common/base/status.h"

namespace bastion {

absl::StatusOr<StopStrings> StopStrings::Create(std::vector<std::string> stops) {
  for (size_t i = 0; i < stops.size(); ++i) {
    if (stops[i].empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat("stop string ", i, " is empty; remove it or add a character"));
    }
  }
  return StopStrings(std::move(stops));
}

const std::string* StopStrings::LongestStopEndingAt(size_t end) const {
  const std::string_view text = std::string_view(held_).substr(0, end);
  const std::string* longest = nullptr;
  for (const std::string& stop : stops_) {
    if (text.ends_with(stop) && (longest == nullptr || stop.size() > longest->size())) {
      longest = &stop;
    }
  }
  return longest;
}

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
    const std::string* stop = LongestStopEndingAt(end);
    if (stop == nullptr) continue;
    match_ = *stop;
    held_.resize(end - stop->size());
    return std::exchange(held_, "");
  }
  std::string certain = held_.substr(0, held_.size() - UndecidedSuffix());
  held_.erase(0, certain.size());
  return certain;
}

std::string StopStrings::TakeHeldText() { return std::exchange(held_, ""); }

}  // namespace bastion
