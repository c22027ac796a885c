// StopStrings: ends streamed text at the first stop string.
//
// Text that may be the beginning of a stop string is held back until later text decides. The stop
// string that ends first wins; if several end at the same place, the longest wins. So the result
// depends only on the text, not on how it was split into pieces, and speculation cannot change it.
//
// A byte of text costs O(1) amortized time per stop string, whatever their lengths are.
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TEXT_STOP_STRINGS_H_
#define BASTION_ORCHESTRATOR_TEXT_STOP_STRINGS_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "orchestrator/text/string_matcher.h"

namespace bastion {

class StopStrings {
 public:
  // INVALID_ARGUMENT for an empty stop string, which would end every text immediately. Without stop
  // strings, all text passes unchanged.
  [[nodiscard]] static absl::StatusOr<StopStrings> Create(const std::vector<std::string>& stops);

  // Adds `piece` and returns the text that can no longer be part of a stop string. After a match,
  // returns "".
  [[nodiscard]] std::string Push(std::string_view piece);

  // Returns the held text and clears it. Call it when no more text follows.
  [[nodiscard]] std::string TakeHeldText() { return TakeFront(held_bytes()); }

  // False if there are no stop strings.
  [[nodiscard]] bool any() const { return !matchers_.empty(); }
  // The stop string that ended the text; empty before a match.
  [[nodiscard]] const std::string& match() const { return match_; }
  [[nodiscard]] bool stopped() const { return !match_.empty(); }

 private:
  explicit StopStrings(const std::vector<std::string>& stops)
      : matchers_(stops.begin(), stops.end()) {}
  // Adds a byte. Returns the longest stop string that it completes; null if there is none.
  [[nodiscard]] const std::string* PushByte(char byte);
  [[nodiscard]] size_t held_bytes() const { return held_.size() - first_held_; }
  // Removes the first `bytes` bytes of the held text and returns them.
  [[nodiscard]] std::string TakeFront(size_t bytes);

  std::vector<StringMatcher> matchers_;
  // From first_held_ on. Between calls: the longest suffix of the text that begins a stop string.
  std::string held_;
  size_t first_held_ = 0;
  std::string match_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TEXT_STOP_STRINGS_H_
