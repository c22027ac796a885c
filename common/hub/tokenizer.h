// Text to token ids and back, by Hugging Face's own code for tokenizer.json.
//
// Thread-safe: immutable once loaded.
#ifndef BASTION_COMMON_HUB_TOKENIZER_H_
#define BASTION_COMMON_HUB_TOKENIZER_H_

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/ids.h"

struct BastionHubTokenizer;

namespace bastion::hub {

class Tokenizer {
 public:
  // Reads folder/tokenizer.json. NOT_FOUND without one, INVALID_ARGUMENT for a damaged one.
  [[nodiscard]] static absl::StatusOr<Tokenizer> Load(const std::string& folder);

  // INVALID_ARGUMENT, with the offset, for text that is not UTF-8. `add_special` asks for what the
  // file's post-processor adds around a text, a BOS token for example.
  [[nodiscard]] absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                                            bool add_special) const;

  // The text of all the ids at once; bytes that are no UTF-8 become U+FFFD. Ids without a token add
  // nothing. INVALID_ARGUMENT for a negative id.
  [[nodiscard]] absl::StatusOr<std::string> Decode(absl::Span<const TokenId> ids,
                                                   bool skip_special) const;

  // One past the largest id. A model's V may be larger: checkpoints pad it.
  [[nodiscard]] int vocabulary() const { return vocabulary_; }
  // The id of the token that the file writes as `token` ("<|im_end|>"), if there is one.
  [[nodiscard]] std::optional<TokenId> Find(std::string_view token) const;
  [[nodiscard]] const BastionHubTokenizer* handle() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(BastionHubTokenizer* handle) const;
  };
  using Handle = std::unique_ptr<BastionHubTokenizer, Free>;

  Tokenizer(Handle handle, int vocabulary) : handle_(std::move(handle)), vocabulary_(vocabulary) {}
  [[nodiscard]] static absl::StatusOr<Tokenizer> FromJson(std::string_view json);

  Handle handle_;
  int vocabulary_;
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_TOKENIZER_H_
