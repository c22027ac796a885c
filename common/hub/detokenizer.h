// Detokenizer: converts token ids to text while they arrive.
// A byte-level token can end in the middle of a character. Push returns only complete characters
// and keeps the bytes of an incomplete character for the next call. The pieces from Push and
// FlushIncomplete together equal the text of decoding all ids at once, no matter how the ids were
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

  // Returns the text that `ids` complete, as UTF-8. It may be empty. Bytes that cannot be part of a
  // character become U+FFFD. Special tokens and ids without a token add nothing.
  [[nodiscard]] std::string Push(absl::Span<const TokenId> ids);

  // Ends the text. Returns U+FFFD for an incomplete character at its end, else an empty string. A
  // new text may follow.
  [[nodiscard]] std::string FlushIncomplete();

 private:
  struct Free {
    void operator()(BastionHubDetokenizer* handle) const;
  };

  std::unique_ptr<BastionHubDetokenizer, Free> handle_;
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_DETOKENIZER_H_
