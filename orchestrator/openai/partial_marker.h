// The begin of a marker at the end of a text, which readers of streams hold back. Thread-safe: no
// state.
#ifndef BASTION_ORCHESTRATOR_OPENAI_PARTIAL_MARKER_H_
#define BASTION_ORCHESTRATOR_OPENAI_PARTIAL_MARKER_H_

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

namespace bastion {

// The length of the longest end of `text` that `marker` begins with, but not all of it. REQUIRES:
// `marker` is not empty.
[[nodiscard]] inline size_t PartialMarker(absl::string_view text, absl::string_view marker) {
  size_t length = std::min(text.size(), marker.size() - 1);
  while (length > 0 && !absl::EndsWith(text, marker.substr(0, length))) --length;
  return length;
}

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_OPENAI_PARTIAL_MARKER_H_
