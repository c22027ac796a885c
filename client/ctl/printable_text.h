// Makes text of a model or a server safe to print: it cannot control the terminal, hide itself or
// change the direction of the text around it. Thread-safe: no state.
#ifndef BASTION_CLIENT_CTL_PRINTABLE_TEXT_H_
#define BASTION_CLIENT_CTL_PRINTABLE_TEXT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace bastion {

// `text` on one line, with every character visible: a space becomes "·", and line ends, control
// characters, invisible characters, bytes that are not UTF-8 and "\" become escapes such as \n,
// \x1b, \u{202e} and \\.
[[nodiscard]] std::string VisibleText(absl::string_view text);

// `text` with the same escapes for control characters, changes of direction and invalid bytes.
// Spaces, tabs, newlines and "\" stay as they are.
[[nodiscard]] std::string PrintableText(absl::string_view text);

// The first `characters` characters of the UTF-8 text `text`. A longer text is cut and ends in "…".
// REQUIRES: characters > 0.
[[nodiscard]] std::string Shortened(absl::string_view text, size_t characters);

}  // namespace bastion

#endif  // BASTION_CLIENT_CTL_PRINTABLE_TEXT_H_
