// The special tokens that a checkpoint's tokenizer names, e.g. bos_token, and whether a text gets
// them. Internal to common/hub. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_NAMED_TOKENS_H_
#define BASTION_COMMON_HUB_NAMED_TOKENS_H_

#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/hub/json_file.h"

namespace bastion::hub {

struct NamedTokens {
  // By name: bos_token, eos_token, unk_token, sep_token, pad_token, cls_token, mask_token. Names
  // without a token are absent.
  std::map<std::string, std::string> texts;
  // Whether a text begins with bos_token and ends with eos_token. Unset in both: the post-processor
  // of tokenizer.json decides.
  std::optional<bool> add_bos, add_eos;

  // Reads tokenizer_config.json. What it does not name comes from special_tokens_map.json. If that
  // does not name bos_token or eos_token either, it is the added token of tokenizer.json with the
  // id that config.json gives. `tokenizer_config` is the contents of the first file.
  [[nodiscard]] static absl::StatusOr<NamedTokens> Read(const std::string& folder,
                                                        const JsonObject& tokenizer_config);
};

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_NAMED_TOKENS_H_
