#include "common/hub/gguf_names.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/hub/model_family.h"

namespace bastion::hub {
namespace {

constexpr GgufArchitecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", RowOrder::kInterleaved},
    {"qwen2", "Qwen2ForCausalLM"},
    {"qwen3", "Qwen3ForCausalLM"},
    {"qwen3moe", "Qwen3MoeForCausalLM"},
    {"smollm3", "SmolLM3ForCausalLM", RowOrder::kInterleaved},
    {"gptneox", "GPTNeoXForCausalLM", RowOrder::kSame, RowOrder::kStackedQkv}};

constexpr std::string_view kBlock = "blk.";

// A name in GGUF files, and the one in `transformers`.
struct NamePair {
  std::string_view file;
  std::string TensorNames::*name;
};

constexpr NamePair kModelNames[] = {{"token_embd", &TensorNames::embedding},
                                    {"output_norm", &TensorNames::final_norm},
                                    {"output", &TensorNames::head}};
constexpr NamePair kBlockNames[] = {{"attn_norm", &TensorNames::attention_norm},
                                    {"ffn_norm", &TensorNames::mlp_norm},
                                    {"attn_q", &TensorNames::query},
                                    {"attn_k", &TensorNames::key},
                                    {"attn_v", &TensorNames::value},
                                    {"attn_qkv", &TensorNames::fused_qkv},
                                    {"attn_output", &TensorNames::output},
                                    {"attn_q_norm", &TensorNames::query_norm},
                                    {"attn_k_norm", &TensorNames::key_norm},
                                    {"ffn_gate", &TensorNames::gate},
                                    {"ffn_up", &TensorNames::up},
                                    {"ffn_down", &TensorNames::down},
                                    {"ffn_gate_inp", &TensorNames::router}};
constexpr NamePair kExpertNames[] = {{"ffn_gate_exps", &TensorNames::expert_gate},
                                     {"ffn_up_exps", &TensorNames::expert_up},
                                     {"ffn_down_exps", &TensorNames::expert_down}};

template <size_t N>
const NamePair* Find(const NamePair (&pairs)[N], std::string_view file) {
  const auto* const found = std::find_if(std::begin(pairs), std::end(pairs),
                                         [&](const NamePair& pair) { return pair.file == file; });
  return found == std::end(pairs) ? nullptr : found;
}

// A name like "blk.3.attn_q.weight": the block's number and a dot, the name inside it, the suffix.
struct NameParts {
  std::string_view block;  // Empty outside of blocks.
  std::string_view name;
  std::string_view suffix;
};

NameParts Split(std::string_view name) {
  NameParts parts;
  if (name.substr(0, kBlock.size()) == kBlock) {
    const size_t dot = name.find('.', kBlock.size());
    if (dot != std::string_view::npos) {
      parts.block = name.substr(kBlock.size(), dot + 1 - kBlock.size());
      name.remove_prefix(dot + 1);
    }
  }
  const size_t dot = std::min(name.find('.'), name.size());
  parts.name = name.substr(0, dot);
  parts.suffix = name.substr(dot);
  return parts;
}

// The matrices of all experts, one after the other.
std::vector<GgufTensor> Experts(const std::string& prefix, const std::string& suffix,
                                const TensorView& view) {
  std::vector<GgufTensor> experts;
  const int64_t count = view.shape[0];
  for (int64_t e = 0; e < count; ++e) {
    GgufTensor expert;
    expert.name = absl::StrCat(prefix, e, ".", suffix);
    expert.view = view;
    expert.view.shape.erase(expert.view.shape.begin());
    expert.view.bytes = view.bytes / count;
    expert.view.data = static_cast<const char*>(view.data) + expert.view.bytes * e;
    experts.push_back(std::move(expert));
  }
  return experts;
}

// Where element `row` of a head of `rows` rows is if the halves alternate.
int64_t Interleaved(int64_t row, int64_t rows) {
  const int64_t half = rows / 2;
  return row % half * 2 + row / half;
}

}  // namespace

absl::StatusOr<const GgufArchitecture*> FindGgufArchitecture(const std::string& name) {
  std::string known;
  for (const GgufArchitecture& architecture : kArchitectures) {
    if (architecture.name == name) return &architecture;
    absl::StrAppend(&known, known.empty() ? "" : ", ", architecture.name);
  }
  return absl::UnimplementedError(
      absl::StrCat("'general.architecture' is '", name, "'; the engines support only ", known));
}

absl::StatusOr<std::vector<GgufTensor>> NameTensor(const GgufArchitecture& architecture,
                                                   int head_rows, const std::string& name,
                                                   const TensorView& view) {
  const ModelFamily* const family = FindFamily(architecture.architecture);
  CHECK(family != nullptr) << architecture.architecture;
  const TensorNames& names = family->names;
  const NameParts parts = Split(name);
  const std::string suffix(parts.suffix),
      block = absl::StrCat(names.blocks, std::string(parts.block));
  GgufTensor tensor = {name, view};
  if (parts.block.empty()) {
    const NamePair* const pair = Find(kModelNames, parts.name);
    if (pair != nullptr) tensor.name = names.*pair->name + suffix;
    return std::vector<GgufTensor>{std::move(tensor)};
  }
  if (const NamePair* const pair = Find(kExpertNames, parts.name); pair != nullptr) {
    if (view.shape.size() != 3) return std::vector<GgufTensor>{std::move(tensor)};
    return Experts(block + names.experts, names.*pair->name + suffix, view);
  }
  const NamePair* const pair = Find(kBlockNames, parts.name);
  if (pair == nullptr || (names.*pair->name).empty()) {
    return std::vector<GgufTensor>{std::move(tensor)};
  }
  tensor.name = block + names.*pair->name + suffix;
  if (parts.name == "attn_q" || parts.name == "attn_k") tensor.order = architecture.query_key;
  if (parts.name == "attn_qkv") tensor.order = architecture.fused_qkv;
  if (tensor.order == RowOrder::kSame) return std::vector<GgufTensor>{std::move(tensor)};
  tensor.head_rows = head_rows;
  const int64_t unit = tensor.order == RowOrder::kStackedQkv ? 3 * int64_t{head_rows} : head_rows;
  if (head_rows % 2 != 0 || view.shape[0] % unit != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' has ", view.shape[0],
                                                   " rows, but heads have ", head_rows));
  }
  return std::vector<GgufTensor>{std::move(tensor)};
}

std::vector<int64_t> FileRows(const GgufTensor& tensor) {
  const int64_t rows = tensor.view.shape[0], size = tensor.head_rows;
  std::vector<int64_t> from(rows);
  for (int64_t row = 0; row < rows; ++row) {
    switch (tensor.order) {
      case RowOrder::kSame:
        from[row] = row;
        break;
      case RowOrder::kInterleaved:
        from[row] = row / size * size + Interleaved(row % size, size);
        break;
      case RowOrder::kStackedQkv: {
        const int64_t head = row / (3 * size), kind = row / size % 3;
        from[row] = kind * (rows / 3) + head * size + row % size;
        break;
      }
    }
  }
  return from;
}

}  // namespace bastion::hub
