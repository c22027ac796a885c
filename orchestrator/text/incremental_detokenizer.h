// Token ids to text while they arrive.
//
// Byte-level tokens split characters: a piece of text goes out only when it is whole UTF-8, and
// bytes that begin a character wait for the rest. The pieces put end to end, with Finish's, are the
// text that decoding all the ids at once gives, however the ids were grouped.
//
// Thread rule: one thread at a time. The tokenizer must outlive it.
#ifndef BASTION_ORCHESTRATOR_TEXT_INCREMENTAL_DETOKENIZER_H_
#define BASTION_ORCHESTRATOR_TEXT_INCREMENTAL_DETOKENIZER_H_

#include <string>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/hub/tokenizer.h"

namespace bastion {

class IncrementalDetokenizer {
 public:
  // `skip_special` leaves control tokens out of the text.
  explicit IncrementalDetokenizer(const hub::Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // The text that became certain with `ids`: UTF-8, perhaps empty. Bytes that can never become a
  // character are U+FFFD. Ids that the tokenizer does not know add nothing.
  [[nodiscard]] std::string Push(absl::Span<const TokenId> ids);

  // What was held back, as U+FFFD: no more ids follow. Starts a new text.
  [[nodiscard]] std::string Finish();

 private:
  const hub::Tokenizer& tokenizer_;
  bool skip_special_;
  std::string held_;  // At most 3 bytes between calls: the beginning of a character.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TEXT_INCREMENTAL_DETOKENIZER_H_
