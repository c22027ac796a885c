// Ends a text at the first of some stop strings while it arrives.
//
// Text that may turn out to be the beginning of a stop string is held back until it is decided. The
// stop that ends first wins, the longest of those that end together; so the result is a function of
// the text alone and not of how it was cut into pieces, and speculation cannot change it.
//
// Thread rule: one thread at a time.
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
  // Whether the stop string itself belongs to the text.
  enum class Matched { kLeftOut, kKept };

  // INVALID_ARGUMENT for an empty stop string, which would end every text at once. No stop strings
  // at all is fine: text then passes straight through.
  [[nodiscard]] static absl::StatusOr<StopStrings> Create(std::vector<std::string> stops,
                                                          Matched matched = Matched::kLeftOut);

  // The text that became certain with `piece`. After a match: nothing, ever.
  [[nodiscard]] std::string Push(std::string_view piece);

  // What was held back, now that no more text follows.
  [[nodiscard]] std::string Finish();

  // False when no text can ever match.
  [[nodiscard]] bool any() const { return !stops_.empty(); }
  // The stop string that ended the text; empty as long as none did.
  [[nodiscard]] const std::string& match() const { return match_; }
  [[nodiscard]] bool stopped() const { return !match_.empty(); }

 private:
  StopStrings(std::vector<std::string> stops, Matched matched)
      : stops_(std::move(stops)), matched_(matched) {}
  [[nodiscard]] const std::string* EndingAt(size_t end) const;
  [[nodiscard]] size_t UndecidedSuffix() const;

  std::vector<std::string> stops_;
  Matched matched_;
  std::string held_;  // Between calls: the longest end of the text that begins a stop string.
  std::string match_;
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TEXT_STOP_STRINGS_H_
