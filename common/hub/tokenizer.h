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

  // The bytes that `id` adds when it continues a text: what an incremental decoder puts end to end.
  // They need not be UTF-8 by themselves. Empty for an id without a token.
  [[nodiscard]] const std::string& Bytes(TokenId id) const;
  // Whether `id` is a control token, which text for people leaves out.
  [[nodiscard]] bool IsSpecial(TokenId id) const;

  // One past the largest id. A model's V may be larger: checkpoints pad it.
  [[nodiscard]] int vocabulary() const { return static_cast<int>(pieces_.size()); }
  // The id of the token that the file writes as `token` ("<|im_end|>"), if there is one.
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
  [[nodiscard]] bool Known(TokenId id) const { return id >= 0 && id < vocabulary(); }

  Handle handle_;
  std::vector<Piece> pieces_;  // By id.
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_TOKENIZER_H_
