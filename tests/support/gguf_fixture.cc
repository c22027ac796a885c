#include "tests/support/gguf_fixture.h"

#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/base/check.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"

namespace bastion::testing {
namespace {

using nlohmann::json;

constexpr size_t kAlignment = 32;

template <typename T>
void Put(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

void PutString(const std::string& text, std::string& out) {
  Put<uint64_t>(text.size(), out);
  out += text;
}

uint32_t TypeOf(const json& value) {
  if (value.is_boolean()) return 7;
  if (value.is_number_integer()) return 5;
  if (value.is_number()) return 6;
  return value.is_string() ? 8 : 9;
}

void PutValue(const json& value, std::string& out) {
  switch (TypeOf(value)) {
    case 5:
      return Put<int32_t>(value.get<int32_t>(), out);
    case 6:
      return Put<float>(value.get<float>(), out);
    case 7:
      return Put<uint8_t>(value.get<bool>(), out);
    case 8:
      return PutString(value.get<std::string>(), out);
    default:
      Put<uint32_t>(value.empty() ? 5 : TypeOf(value[0]), out);
      Put<uint64_t>(value.size(), out);
      for (const json& element : value) PutValue(element, out);
  }
}

void Align(std::string& out) {
  out.resize((out.size() + kAlignment - 1) / kAlignment * kAlignment);
}

// A head's rows: the halves of each head alternate.
std::string Interleave(const std::string& data, int64_t rows, int heads) {
  const int64_t half = rows / heads / 2, row = static_cast<int64_t>(data.size()) / rows;
  std::string out;
  for (int64_t h = 0; h < heads; ++h) {
    for (int64_t i = 0; i < half; ++i) {
      for (int64_t part = 0; part < 2; ++part) {
        out += data.substr(((h * 2 + part) * half + i) * row, row);
      }
    }
  }
  return out;
}

// All queries, then all keys, then all values.
std::string StackQkv(const std::string& data, int heads) {
  const size_t part = data.size() / heads / 3;
  std::string out;
  for (size_t kind = 0; kind < 3; ++kind) {
    for (int h = 0; h < heads; ++h) out += data.substr((h * 3 + kind) * part, part);
  }
  return out;
}

// The architecture's name, and what its file does with the rows of queries and keys.
const std::map<std::string, std::pair<std::string, bool>>& Architectures() {
  static const auto* const names = new std::map<std::string, std::pair<std::string, bool>>{
      {"LlamaForCausalLM", {"llama", true}},        {"SmolLM3ForCausalLM", {"smollm3", true}},
      {"Qwen2ForCausalLM", {"qwen2", false}},       {"Qwen3ForCausalLM", {"qwen3", false}},
      {"Qwen3MoeForCausalLM", {"qwen3moe", false}}, {"GPTNeoXForCausalLM", {"gptneox", false}}};
  return *names;
}

std::string StoredName(const std::string& name) {
  return absl::StrReplaceAll(name, {{"model.layers.", "blk."},
                                    {"gpt_neox.layers.", "blk."},
                                    {"model.embed_tokens.", "token_embd."},
                                    {"gpt_neox.embed_in.", "token_embd."},
                                    {"embed_out.", "output."},
                                    {"lm_head.", "output."},
                                    {"model.norm.", "output_norm."},
                                    {"gpt_neox.final_layer_norm.", "output_norm."},
                                    {"post_attention_layernorm.", "ffn_norm."},
                                    {"input_layernorm.", "attn_norm."},
                                    {"attention.query_key_value.", "attn_qkv."},
                                    {"attention.dense.", "attn_output."},
                                    {"mlp.dense_h_to_4h.", "ffn_up."},
                                    {"mlp.dense_4h_to_h.", "ffn_down."},
                                    {"self_attn.q_norm.", "attn_q_norm."},
                                    {"self_attn.k_norm.", "attn_k_norm."},
                                    {"self_attn.q_proj.", "attn_q."},
                                    {"self_attn.k_proj.", "attn_k."},
                                    {"self_attn.v_proj.", "attn_v."},
                                    {"self_attn.o_proj.", "attn_output."},
                                    {"mlp.gate.", "ffn_gate_inp."},
                                    {"mlp.gate_proj.", "ffn_gate."},
                                    {"mlp.up_proj.", "ffn_up."},
                                    {"mlp.down_proj.", "ffn_down."}});
}

json MetadataOf(const hub::ModelConfig& config, const std::string& name) {
  const ModelDims& dims = config.dims;
  json metadata = {{"general.architecture", name}};
  const auto set = [&](const char* key, const json& value) { metadata[name + "." + key] = value; };
  set("block_count", dims.layers);
  set("context_length", config.max_positions);
  set("embedding_length", dims.hidden);
  set("feed_forward_length", dims.intermediate);
  set("attention.head_count", dims.query_heads);
  set("attention.head_count_kv", dims.kv_heads);
  set("attention.key_length", dims.head_dim);
  set("attention.value_length", dims.head_dim);
  set(config.blocks.norm == hub::NormKind::kLayer ? "attention.layer_norm_epsilon"
                                                  : "attention.layer_norm_rms_epsilon",
      config.blocks.norm_epsilon);
  set("rope.dimension_count", config.blocks.rope.dims);
  set("rope.freq_base", config.blocks.rope.theta);
  if (name == "gptneox") set("use_parallel_residual", config.blocks.parallel_residual);
  if (config.blocks.experts.count == 0) return metadata;
  set("expert_count", config.blocks.experts.count);
  set("expert_used_count", config.blocks.experts.chosen);
  set("expert_feed_forward_length", config.blocks.experts.intermediate);
  return metadata;
}

// The tensors of all experts of a layer become one.
void AddExpert(const std::string& name, GgufTensorFixture tensor, GgufFixture& file) {
  constexpr const char* kExperts = ".mlp.experts.";
  const size_t at = name.find(kExperts);
  const std::string layer = name.substr(0, at);
  const std::string rest = name.substr(name.find('.', at + std::strlen(kExperts)) + 1);
  const std::string stacked =
      absl::StrReplaceAll(absl::StrCat(layer, ".", rest), {{"model.layers.", "blk."},
                                                           {"gate_proj.", "ffn_gate_exps."},
                                                           {"up_proj.", "ffn_up_exps."},
                                                           {"down_proj.", "ffn_down_exps."}});
  for (GgufTensorFixture& found : file.tensors) {
    if (found.name != stacked) continue;
    ++found.shape[0];
    found.data += tensor.data;
    return;
  }
  tensor.name = stacked;
  tensor.shape.insert(tensor.shape.begin(), 1);
  file.tensors.push_back(std::move(tensor));
}

}  // namespace

std::string GgufFixture::Bytes() const {
  std::string out = "GGUF";
  Put<uint32_t>(version, out);
  Put<uint64_t>(tensors.size(), out);
  Put<uint64_t>(metadata.size(), out);
  for (const auto& [key, value] : metadata.items()) {
    PutString(key, out);
    Put<uint32_t>(TypeOf(value), out);
    PutValue(value, out);
  }
  uint64_t offset = 0;
  for (const GgufTensorFixture& tensor : tensors) {
    PutString(tensor.name, out);
    Put<uint32_t>(static_cast<uint32_t>(tensor.shape.size()), out);
    for (size_t i = tensor.shape.size(); i-- > 0;) Put<uint64_t>(tensor.shape[i], out);
    Put<uint32_t>(tensor.type, out);
    Put<uint64_t>(offset, out);
    offset += (tensor.data.size() + kAlignment - 1) / kAlignment * kAlignment;
  }
  for (const GgufTensorFixture& tensor : tensors) {
    Align(out);
    out += tensor.data;
  }
  return out;
}

GgufFixture GgufOfFolder(const std::string& folder) {
  const auto config = hub::ReadModelConfig(folder);
  CHECK(config.ok()) << config.status();
  const auto opened = hub::Checkpoint::Open(folder);
  CHECK(opened.ok()) << opened.status();
  const auto& [name, interleaved] = Architectures().at(config->architecture);
  GgufFixture file;
  file.metadata = MetadataOf(*config, name);
  for (const std::string& tensor_name : (*opened)->TensorNames()) {
    // Other tensors are buffers of old checkpoints.
    if (!absl::EndsWith(tensor_name, ".weight") && !absl::EndsWith(tensor_name, ".bias")) continue;
    const auto view = (*opened)->Find(tensor_name);
    if (!view.ok()) continue;
    const std::string stored = StoredName(tensor_name);
    GgufTensorFixture tensor = {stored, 0, view->shape, {}};
    if (view->dtype == DType::kBF16) tensor.type = 30;
    if (view->dtype == DType::kF16) tensor.type = 1;
    tensor.data.assign(static_cast<const char*>(view->data), view->bytes);
    const int64_t rows = view->shape[0];
    if (interleaved && absl::StrContains(stored, "attn_q.")) {
      tensor.data = Interleave(tensor.data, rows, config->dims.query_heads);
    } else if (interleaved && absl::StrContains(stored, "attn_k.")) {
      tensor.data = Interleave(tensor.data, rows, config->dims.kv_heads);
    } else if (absl::StrContains(stored, "attn_qkv.")) {
      tensor.data = StackQkv(tensor.data, config->dims.query_heads);
    }
    if (absl::StrContains(tensor_name, ".mlp.experts.")) {
      AddExpert(tensor_name, std::move(tensor), file);
    } else {
      file.tensors.push_back(std::move(tensor));
    }
  }
  return file;
}

}  // namespace bastion::testing
