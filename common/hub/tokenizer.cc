#include "common/hub/tokenizer.h"

#include <utility>

#include "common/base/status.h"
#include "common/hub/ffi.h"
#include "common/hub/json_file.h"
#include "common/hub/named_tokens.h"
#include "common/hub/rust_boundary.h"
#include "common/hub/utf8.h"

namespace bastion::hub {

void Tokenizer::Free::operator()(BastionHubTokenizer* handle) const {
  bastion_hub_tokenizer_free(handle);
}

absl::StatusOr<Tokenizer> Tokenizer::Load(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/tokenizer.json");
  ASSIGN_OR_RETURN(const std::string json, ReadTextFile(path));
  absl::StatusOr<Tokenizer> tokenizer = FromJson(json);
  if (!tokenizer.ok()) return Annotate(tokenizer.status(), path);
  RETURN_IF_ERROR(tokenizer->ReadEnds(folder));
  return tokenizer;
}

absl::StatusOr<Tokenizer> Tokenizer::FromJson(std::string_view json) {
  BastionHubTokenizer* raw = nullptr;
  RETURN_IF_ERROR(Take(bastion_hub_tokenizer_new(Borrow(json), &raw)));
  Handle handle(raw);
  uint32_t vocabulary = 0, longest_token = 0;
  RETURN_IF_ERROR(Take(bastion_hub_tokenizer_vocabulary(raw, &vocabulary)));
  RETURN_IF_ERROR(Take(bastion_hub_tokenizer_longest_token(raw, &longest_token)));
  return Tokenizer(std::move(handle), static_cast<int>(vocabulary),
                   static_cast<int>(longest_token));
}

absl::Status Tokenizer::ReadEnds(const std::string& folder) {
  ASSIGN_OR_RETURN(const JsonObject config,
                   JsonObject::ReadOptional(absl::StrCat(folder, "/tokenizer_config.json")));
  if (!config.Has("add_bos_token") && !config.Has("add_eos_token")) return absl::OkStatus();
  ASSIGN_OR_RETURN(const NamedTokens special, NamedTokens::Read(folder, config));
  const auto find = [&](std::optional<bool> add, const char* name) -> std::optional<TokenId> {
    const auto text = special.texts.find(name);
    if (!add.value_or(false) || text == special.texts.end()) return std::nullopt;
    return Find(text->second);
  };
  ends_ = Ends{find(special.add_bos, "bos_token"), find(special.add_eos, "eos_token")};
  return absl::OkStatus();
}

absl::StatusOr<std::vector<TokenId>> Tokenizer::Encode(std::string_view text,
                                                       bool add_special) const {
  RETURN_IF_ERROR(CheckUtf8(text, "the text"));
  const bool has_ends = add_special && ends_.has_value();
  BastionHubIds encoded;
  RETURN_IF_ERROR(Take(bastion_hub_tokenizer_encode(handle_.get(), Borrow(text),
                                                    add_special && !has_ends, &encoded)));
  std::vector<TokenId> ids = Take(encoded);
  if (has_ends && ends_->first) ids.insert(ids.begin(), *ends_->first);
  if (has_ends && ends_->last) ids.push_back(*ends_->last);
  return ids;
}

absl::StatusOr<std::string> Tokenizer::Decode(absl::Span<const TokenId> ids,
                                              bool skip_special) const {
  for (const TokenId id : ids) {
    if (id < 0) return absl::InvalidArgumentError(absl::StrCat("token id ", id, " is negative"));
  }
  const std::vector<uint32_t> unsigned_ids(ids.begin(), ids.end());
  BastionHubText text;
  RETURN_IF_ERROR(Take(bastion_hub_tokenizer_decode(handle_.get(), unsigned_ids.data(),
                                                    unsigned_ids.size(), skip_special, &text)));
  return Take(text);
}

std::string_view Tokenizer::TokenBytes(TokenId id) const {
  // A negative id becomes a large unsigned id, which has no token.
  const BastionHubBytes bytes =
      bastion_hub_tokenizer_token_bytes(handle_.get(), static_cast<uint32_t>(id));
  return {reinterpret_cast<const char*>(bytes.data), bytes.size};
}

absl::StatusOr<std::string> Tokenizer::FindSpecial(std::string_view text) const {
  BastionHubText found;
  RETURN_IF_ERROR(Take(bastion_hub_tokenizer_special_in(handle_.get(), Borrow(text), &found)));
  return Take(found);
}

std::optional<TokenId> Tokenizer::Find(std::string_view token) const {
  uint32_t id = 0;
  const absl::Status status = Take(bastion_hub_tokenizer_find(handle_.get(), Borrow(token), &id));
  return status.ok() ? std::optional<TokenId>(static_cast<TokenId>(id)) : std::nullopt;
}

}  // namespace bastion::hub
