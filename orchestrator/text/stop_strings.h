// StopStrings: ends streamed text at the first stop string.
//
// Text that may be the beginning of a stop string is held back until later text decides. The stop
// string that ends first wins; if several end at the same place, the longest wins. So the result
// depends only on the text, not on how it was split into pieces, and speculation cannot change it.
//
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TEXT_STOP_STRINGS_H_
#define BASTION_ORCHESTRATOR_TEXT_STOP_STRINGS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

namespace bastion {

class StopStrings {
 public:
  // INVALID_ARGUMENT for an empty stop string, which would end every text immediately. Without stop
  // strings, all text passes unchanged.
  [[nodiscard]] static absl::StatusOr<StopStrings> Create(std::vector<std::string> stops);

  // Adds `piece` and returns the text that can no longer be part of a stop string. After a match,
  // returns "".
  [[nodiscard]] std::string Push(std::string_view piece);

  // Returns the held text and clears it. Call it when no more text follows.
  [[nodiscard]] std::string TakeHeldText();

  // False if there are no stop strings.
  [[nodiscard]] bool any() const { return !stops_.empty(); }
  // The stop string that ended the text; empty before a match.
  [[nodiscard]] const std::string& match() const { return match_; }
  [[nodiscard]] bool stopped() const { return !match_.empty(); }

 private:
  explicit StopStrings(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  // The longest stop string with which the first `end` bytes of held_ end; null if there is none.
  [[nodiscard]] const std::string* LongestStopEndingAt(size_t end) const;
  // The number of bytes at the end of held_ that begin a stop string without completing it.
  [[nodiscard]] size_t UndecidedSuffix() const;

  std::vector<std::string> stops_;
  std::string held_;  // Between calls: the longest suffix of the text that begins a stop string.
  std::string match_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TEXT_STOP_STRINGS_H_
