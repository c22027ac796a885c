// The page of bastionctl explain --html: the draft trees of an answer, cycle by cycle. Thread-safe:
// no state.
#ifndef BASTION_CLIENT_CTL_EXPLAIN_PAGE_H_
#define BASTION_CLIENT_CTL_EXPLAIN_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "client/ctl/explain.h"

namespace bastion {

// One HTML page that loads nothing. Its content security policy allows only the style and the
// script with `nonce`, which must be unpredictable, at least 16 characters of base64url. Text of
// the model is JSON in a data block, and cannot become markup. A tree is shown with its accepted
// nodes and at most the 256 most probable ones.
[[nodiscard]] std::string ExplainPage(const Explanation& explanation, absl::string_view nonce);

}  // namespace bastion

#endif  // BASTION_CLIENT_CTL_EXPLAIN_PAGE_H_
