#include "common/hub/tensor_names.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/hub/checkpoint.h"

namespace bastion::hub {
namespace {

// Ends of the names of constants that older versions of `transformers` saved with the weights: the
// rotary frequencies, and the causal mask with its value for masked entries.
constexpr const char* kConstants[] = {".rotary_emb.inv_freq", ".attention.bias",
                                      ".attention.masked_bias"};

bool IsConstant(const std::string& name) {
  return std::any_of(std::begin(kConstants), std::end(kConstants),
                     [&](const char* end) { return absl::EndsWith(name, end); });
}

}  // namespace

std::string TensorNames::Block(int layer) const {
  return only_block.empty() ? absl::StrCat(blocks, layer, ".") : only_block;
}

absl::Status CheckAllRead(const Checkpoint& checkpoint, const TensorNames& names, bool tied,
                          const std::vector<std::string>& known) {
  std::vector<std::string> unread = checkpoint.UnreadTensors();
  std::erase_if(unread, [&](const std::string& name) {
    return IsConstant(name) || (tied && name == names.head + ".weight") ||
           std::find(known.begin(), known.end(), name) != known.end();
  });
  if (unread.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat(checkpoint.folder(), ": tensor '", unread.front(),
                   "' is not a part of the model that config.json describes (", unread.size(),
                   " such tensors); this engine does not implement the model that has it"));
}

}  // namespace bastion::hub
