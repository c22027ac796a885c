// Tokenizer: converts text to token ids and back, with Hugging Face's code for tokenizer.json.
//
// Thread-safe: immutable after Load.
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
  // Reads folder/tokenizer.json. NOT_FOUND if it is missing, INVALID_ARGUMENT if it is damaged.
  [[nodiscard]] static absl::StatusOr<Tokenizer> Load(const std::string& folder);

  // Returns the ids of `text`. With `add_special`, includes the tokens that the file's
  // post-processor adds, e.g. BOS. INVALID_ARGUMENT with the offset if `text` is not UTF-8.
  [[nodiscard]] absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                                            bool add_special) const;

  // Returns the text of `ids`. Invalid UTF-8 becomes U+FFFD. Ids without a token add nothing.
  // INVALID_ARGUMENT for a negative id.
  [[nodiscard]] absl::StatusOr<std::string> Decode(absl::Span<const TokenId> ids,
                                                   bool skip_special) const;

  // The bytes that `id` adds to a text that it continues; an incremental decoder concatenates them.
  // A single token's bytes need not be valid UTF-8. Empty for an id without a token.
  [[nodiscard]] const std::string& Bytes(TokenId id) const;
  // True if `id` is a control token. Text for users omits it.
  [[nodiscard]] bool IsSpecial(TokenId id) const;

  // The largest id plus one. A model's V may be larger, because checkpoints pad it.
  [[nodiscard]] int vocabulary() const { return static_cast<int>(pieces_.size()); }
  // The id of the token with the text `token`, e.g. "<|im_end|>". Nullopt if there is none.
  [[nodiscard]] std::optional<TokenId> Find(std::string_view token) const;

 private:
  struct Piece {
    std::string bytes;
    bool special = false;
  };
  struct Free {
    void operator()(BastionHubTokenizer* handle) const;
  };
  using Handle = std::unique_ptr<BastionHubTokenizer, Free>;

  Tokenizer(Handle handle, std::vector<Piece> pieces)
      : handle_(std::move(handle)), pieces_(std::move(pieces)) {}
  [[nodiscard]] static absl::StatusOr<Tokenizer> FromJson(std::string_view json);
  [[nodiscard]] bool IsKnown(TokenId id) const { return id >= 0 && id < vocabulary(); }

  Handle handle_;
  std::vector<Piece> pieces_;  // By id.
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_TOKENIZER_H_
