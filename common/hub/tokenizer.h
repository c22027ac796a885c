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
  // post-processor adds, e.g. BOS; add_bos_token and add_eos_token of tokenizer_config.json replace
  // it. INVALID_ARGUMENT with the offset if `text` is not UTF-8.
  [[nodiscard]] absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                                            bool add_special) const;

  // Returns the text of `ids`. Invalid UTF-8 becomes U+FFFD. Ids without a token add nothing.
  // INVALID_ARGUMENT for a negative id.
  [[nodiscard]] absl::StatusOr<std::string> Decode(absl::Span<const TokenId> ids,
                                                   bool skip_special) const;

  // The bytes that `id` adds to a text. They may be a part of a character. Empty for a special
  // token and for an id without a token. Valid as long as this object.
  [[nodiscard]] std::string_view TokenBytes(TokenId id) const;

  // The largest id plus one. A model's V may be larger, because checkpoints pad it.
  [[nodiscard]] int vocabulary() const { return vocabulary_; }
  // Bytes of the longest text that one token represents.
  [[nodiscard]] int longest_token() const { return longest_token_; }
  // The id of the token with the text `token`, e.g. "<|im_end|>". Nullopt if there is none.
  [[nodiscard]] std::optional<TokenId> Find(std::string_view token) const;
  // A special token, e.g. "<|im_end|>", that `text` contains; empty if it contains none.
  // INVALID_ARGUMENT with the offset if `text` is not UTF-8.
  [[nodiscard]] absl::StatusOr<std::string> FindSpecial(std::string_view text) const;
  [[nodiscard]] const BastionHubTokenizer* handle() const { return handle_.get(); }

 private:
  struct Free {
    void operator()(BastionHubTokenizer* handle) const;
  };
  using Handle = std::unique_ptr<BastionHubTokenizer, Free>;

  Tokenizer(Handle handle, int vocabulary, int longest_token)
      : handle_(std::move(handle)), vocabulary_(vocabulary), longest_token_(longest_token) {}
  [[nodiscard]] static absl::StatusOr<Tokenizer> FromJson(std::string_view json);
  // Sets ends_ as tokenizer_config.json says.
  [[nodiscard]] absl::Status ReadEnds(const std::string& folder);

  // The tokens around a text.
  struct Ends {
    std::optional<TokenId> first, last;
  };

  Handle handle_;
  std::optional<Ends> ends_;  // Nullopt: those of the post-processor.
  int vocabulary_;
  int longest_token_;
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_TOKENIZER_H_
