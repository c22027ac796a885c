// IncrementalDetokenizer: converts token ids to text while they arrive.
//
// Byte-level tokens may split a character. A piece of text is returned only when it is whole UTF-8;
// bytes that begin a character are held until the rest arrives. All pieces, followed by the result
// of FlushIncomplete, equal the text that the tokenizer decodes from all ids together, however the
// ids were grouped.
//
// Thread-compatible.
#ifndef BASTION_ORCHESTRATOR_TEXT_INCREMENTAL_DETOKENIZER_H_
#define BASTION_ORCHESTRATOR_TEXT_INCREMENTAL_DETOKENIZER_H_

#include <string>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/hub/tokenizer.h"

namespace bastion {

class IncrementalDetokenizer {
 public:
  // If `skip_special` is true, the text does not contain special tokens. `tokenizer` must outlive
  // this object.
  explicit IncrementalDetokenizer(const hub::Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(tokenizer), skip_special_(skip_special) {}

  // Adds `ids` and returns the text that is complete now: UTF-8, possibly empty. Bytes that cannot
  // be part of a character become U+FFFD. Ids that the tokenizer does not know add nothing.
  [[nodiscard]] std::string Push(absl::Span<const TokenId> ids);

  // Ends the text. Returns U+FFFD if an incomplete character was held, else "". The next Push
  // starts a new text.
  [[nodiscard]] std::string FlushIncomplete();

 private:
  const hub::Tokenizer& tokenizer_;
  bool skip_special_;
  std::string held_;  // The bytes of an incomplete character; at most 3 between calls.
};

}  // namespace bastion

#endif  // BASTION_ORCHESTRATOR_TEXT_INCREMENTAL_DETOKENIZER_H_
