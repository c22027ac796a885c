// Token ids to text while they arrive.
//
// A byte-level token can end inside a character. Text is returned only up to the last complete
// character; the bytes of an incomplete one wait for the next ids. The returned pieces, with that
// of FlushIncomplete, form the text that decoding all ids together gives, however the ids were
// grouped.
//
// Thread-compatible. The tokenizer must outlive it.
#ifndef BASTION_COMMON_HUB_DETOKENIZER_H_
#define BASTION_COMMON_HUB_DETOKENIZER_H_

#include <memory>
#include <string>

#include "absl/types/span.h"
#include "common/base/ids.h"
#include "common/hub/tokenizer.h"

struct BastionHubDetokenizer;

namespace bastion::hub {

class Detokenizer {
 public:
  explicit Detokenizer(const Tokenizer& tokenizer);

  // The text that `ids` complete: UTF-8, perhaps empty. Bytes that cannot be part of a character
  // become U+FFFD. Special tokens and ids without a token add nothing.
  [[nodiscard]] std::string Push(absl::Span<const TokenId> ids);

  // Ends the text: an incomplete character at its end becomes U+FFFD. A new text may follow.
  [[nodiscard]] std::string FlushIncomplete();

 private:
  struct Free {
    void operator()(BastionHubDetokenizer* handle) const;
  };

  std::unique_ptr<BastionHubDetokenizer, Free> handle_;
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_DETOKENIZER_H_
