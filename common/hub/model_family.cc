#include "common/hub/model_family.h"

#include "common/hub/dflash_config.h"
#include "common/hub/eagle_config.h"
#include "common/hub/experts_config.h"
#include "common/hub/specblock_config.h"

namespace bastion::hub {
namespace {

// The fields that every family reads.
constexpr const char* kCommonFields[] = {"hidden_size",
                                         "num_hidden_layers",
                                         "num_attention_heads",
                                         "intermediate_size",
                                         "vocab_size",
                                         "dtype",
                                         "torch_dtype",
                                         "tie_word_embeddings",
                                         "rope_parameters",
                                         "rope_scaling",
                                         "bos_token_id",
                                         "eos_token_id",
                                         "max_position_embeddings"};

// Fields that no family implements, except for one value.
std::vector<FixedField> Fixed(std::vector<FixedField> fields) {
  fields.push_back({"is_encoder_decoder", false});
  fields.push_back({"add_cross_attention", false});
  fields.push_back({"pruned_heads", nlohmann::json::object()});
  fields.push_back({"rope_interleaved", false});
  fields.push_back({"use_mrope", false});
  return fields;
}

ModelFamily Qwen3() {
  ModelFamily family;
  family.architecture = "Qwen3ForCausalLM";
  family.blocks.query_key_norm = true;
  family.defaults.max_positions = 32768;
  family.defaults.head_dim = 128;
  family.defaults.norm_epsilon = 1e-6;
  family.fields = {"num_key_value_heads", "head_dim",          "use_sliding_window",
                   "sliding_window",      "max_window_layers", "layer_types"};
  family.fixed = Fixed({{"hidden_act", "silu"}, {"attention_bias", false}, {"mlp_bias", false}});
  return family;
}

ModelFamily Qwen3Moe() {
  ModelFamily family = Qwen3();
  family.architecture = "Qwen3MoeForCausalLM";
  family.keys.experts = true;
  family.defaults.head_dim.reset();
  family.fields = {"num_key_value_heads", "head_dim", "sliding_window", "max_window_layers"};
  family.fixed.push_back({"use_sliding_window", false});
  for (const std::string& field : ExpertFields()) family.fields.push_back(field);
  return family;
}

// z-lab's drafter: Qwen3's blocks. The embedding and the head are the target's.
ModelFamily DFlash() {
  ModelFamily family = Qwen3();
  family.architecture = kDflashArchitecture;
  family.kind = ModelKind::kDflash;
  family.names.blocks = "layers.";
  family.names.final_norm = "norm";
  for (const char* field : {"block_size", "num_target_layers", "dflash_config", "is_causal"}) {
    family.fields.emplace_back(field);
  }
  return family;
}

// Version 2. Some files have an embedding and a head, with these names.
ModelFamily DFlash2() {
  ModelFamily family = DFlash();
  family.architecture = kDflash2Architecture;
  family.names.embedding = "embed_tokens";
  family.keys.pairs = true;
  return family;
}

// Adds what the library speculators writes beside the object with the fields of the decoder.
void AddSpeculatorsFields(ModelFamily& family) {
  family.keys.decoder = kSpeculatorsDecoder;
  for (const char* field :
       {kSpeculatorsDecoder, "speculators_config", "speculators_version", "embed_requires_grad",
        "has_no_defaults_at_init", "dtype", "torch_dtype", "tie_word_embeddings"}) {
    family.outer_fields.emplace_back(field);
  }
}

// The same in the format of speculators. The fields of experts have no effect on a dense model, and
// max_anchors only on training.
ModelFamily DFlash2Speculator() {
  ModelFamily family = DFlash2();
  family.architecture = kDflash2Speculator;
  family.fields = Qwen3().fields;
  family.outer_fields = Dflash2SpeculatorFields();
  AddSpeculatorsFields(family);
  for (const char* field :
       {"num_experts", "num_experts_per_tok", "moe_intermediate_size",
        "shared_expert_intermediate_size", "moe_experts_implementation", "max_anchors"}) {
    family.outer_fields.emplace_back(field);
  }
  family.outer_fixed = {{"speculators_model_type", "dflash2"},
                        {"sample_from_anchor", false},
                        {"draft_ffn_type", "dense"}};
  return family;
}

ModelFamily Llama() {
  ModelFamily family;
  family.architecture = "LlamaForCausalLM";
  family.names.query_norm.clear();
  family.names.key_norm.clear();
  family.defaults.max_positions = 2048;
  family.defaults.norm_epsilon = 1e-6;
  family.defaults.bos = 1;
  family.defaults.eos = 2;
  family.fields = {"num_key_value_heads", "head_dim"};
  family.fixed = Fixed({{"hidden_act", "silu"}, {"attention_bias", false}, {"mlp_bias", false}});
  return family;
}

// Qwen2 and Qwen2.5.
ModelFamily Qwen2() {
  ModelFamily family;
  family.architecture = "Qwen2ForCausalLM";
  family.names.query_norm.clear();
  family.names.key_norm.clear();
  family.blocks.qkv_bias = true;
  family.defaults.max_positions = 32768;
  family.defaults.norm_epsilon = 1e-6;
  family.fields = {"num_key_value_heads", "head_dim",          "use_sliding_window",
                   "sliding_window",      "max_window_layers", "layer_types"};
  family.fixed = Fixed({{"hidden_act", "silu"}});
  return family;
}

ModelFamily Mistral() {
  ModelFamily family = Llama();
  family.architecture = "MistralForCausalLM";
  family.keys.window_everywhere = true;
  family.defaults.sliding_window = 4096;
  family.defaults.max_positions = 131072;
  family.fields = {"num_key_value_heads", "head_dim", "sliding_window"};
  return family;
}

ModelFamily SmolLM3() {
  ModelFamily family = Llama();
  family.architecture = "SmolLM3ForCausalLM";
  family.keys.rotary_layers = true;
  family.defaults.max_positions = 32768;
  family.defaults.tied = true;
  family.defaults.bos = 128000;
  family.defaults.eos = 128001;
  family.fields = {"num_key_value_heads",   "head_dim",    "sliding_window",
                   "max_window_layers",     "layer_types", "no_rope_layers",
                   "no_rope_layer_interval"};
  family.fixed.push_back({"use_sliding_window", false});
  return family;
}

// GPT-NeoX and Pythia.
ModelFamily GptNeoX() {
  ModelFamily family;
  family.architecture = "GPTNeoXForCausalLM";
  family.blocks.norm = NormKind::kLayer;
  family.blocks.mlp = MlpKind::kGelu;
  family.blocks.qkv_bias = true;
  family.blocks.output_bias = true;
  family.blocks.mlp_bias = true;
  family.blocks.parallel_residual = true;
  TensorNames& names = family.names;
  names.embedding = "gpt_neox.embed_in";
  names.head = "embed_out";
  names.final_norm = "gpt_neox.final_layer_norm";
  names.blocks = "gpt_neox.layers.";
  names.fused_qkv = "attention.query_key_value";
  names.output = "attention.dense";
  names.up = "mlp.dense_h_to_4h";
  names.down = "mlp.dense_4h_to_h";
  for (std::string* none :
       {&names.query, &names.key, &names.value, &names.query_norm, &names.key_norm, &names.gate}) {
    none->clear();
  }
  family.defaults.max_positions = 2048;
  family.defaults.norm_epsilon = 1e-5;
  family.defaults.rotary_fraction = 0.25;
  family.defaults.bos = 0;
  family.defaults.eos = 2;
  family.keys.norm_epsilon = "layer_norm_eps";
  family.keys.rope_theta = "rotary_emb_base";
  family.keys.rotary_fraction = "rotary_pct";
  family.keys.attention_bias = "attention_bias";
  family.keys.parallel_residual = "use_parallel_residual";
  family.fixed = Fixed({{"hidden_act", "gelu"}});
  return family;
}

// A drafter with blocks like Llama's and a head of its own.
ModelFamily LlamaDrafter(const char* architecture, ModelKind kind) {
  ModelFamily family = Llama();
  family.architecture = architecture;
  family.kind = kind;
  family.names = TensorNames();  // The blocks may have norms for queries and keys.
  family.names.embedding = "embed_tokens";
  family.names.blocks = "layers.";
  family.names.final_norm = "norm";
  family.defaults.bos.reset();
  family.defaults.eos.reset();
  for (const char* field : {"sliding_window", "max_window_layers", "target_model_type"}) {
    family.fields.emplace_back(field);
  }
  family.fixed.push_back({"use_sliding_window", false});
  return family;
}

// EAGLE-3 drafters: one block. SpecForge and AngelSlim write all fields into one object. They train
// heads that follow a norm, which is what norm_output means to them.
ModelFamily Eagle(const char* architecture) {
  ModelFamily family = LlamaDrafter(architecture, ModelKind::kEagle);
  for (const std::string& field : EagleFields()) family.fields.push_back(field);
  family.fixed.push_back({"norm_output", true});
  return family;
}

ModelFamily SpecBlock(const char* architecture) {
  ModelFamily family = LlamaDrafter(architecture, ModelKind::kSpecBlock);
  for (const std::string& field : SpecBlockFields()) family.fields.push_back(field);
  return family;
}

// The drafters of the library speculators: the fields of the block are in an object of their own.
ModelFamily Speculator(const char* architecture) {
  ModelFamily family = Eagle(architecture);
  family.fields = {"num_key_value_heads", "head_dim", "sliding_window", "max_window_layers",
                   "layer_types"};
  std::erase_if(family.fixed, [](const FixedField& field) { return field.key == "norm_output"; });
  family.outer_fields = EagleFields();
  AddSpeculatorsFields(family);
  for (const char* field : {"norm_output", "enable_sp_ulysses"}) {
    family.outer_fields.emplace_back(field);
  }
  family.outer_fixed = {{"speculators_model_type", "eagle3"}};
  return family;
}

// P-EAGLE drafters of speculators: the same fields, and one block or more.
ModelFamily ParallelSpeculator(const char* architecture) {
  ModelFamily family = Speculator(architecture);
  family.kind = ModelKind::kParallelEagle;
  family.outer_fixed = {{"speculators_model_type", "peagle"}};
  return family;
}

}  // namespace

const std::vector<ModelFamily>& ModelFamilies() {
  static const auto* const families =
      new std::vector<ModelFamily>{Qwen3(),
                                   Qwen3Moe(),
                                   Qwen2(),
                                   Llama(),
                                   Mistral(),
                                   SmolLM3(),
                                   GptNeoX(),
                                   DFlash(),
                                   DFlash2(),
                                   DFlash2Speculator(),
                                   Eagle(kEagleArchitecture),
                                   Eagle("Eagle3LlamaForCausalLM"),
                                   Speculator("Eagle3Speculator"),
                                   Speculator("Eagle3DraftModel"),
                                   ParallelSpeculator("PEagleSpeculator"),
                                   ParallelSpeculator("PEagleDraftModel"),
                                   SpecBlock("LlamaForCausalLMSpecBlock"),
                                   SpecBlock("LlamaForCausalLMSpecBlockShift")};
  return *families;
}

const ModelFamily* FindFamily(const std::string& architecture) {
  for (const ModelFamily& family : ModelFamilies()) {
    if (family.architecture == architecture) return &family;
  }
  return nullptr;
}

std::vector<std::string> FieldsOf(const ModelFamily& family) {
  std::vector<std::string> fields(std::begin(kCommonFields), std::end(kCommonFields));
  fields.insert(fields.end(), family.fields.begin(), family.fields.end());
  for (const FixedField& field : family.fixed) fields.push_back(field.key);
  const FamilyKeys& keys = family.keys;
  for (const std::string& key : {keys.norm_epsilon, keys.rope_theta, keys.rotary_fraction,
                                 keys.attention_bias, keys.parallel_residual}) {
    if (!key.empty()) fields.push_back(key);
  }
  return fields;
}

}  // namespace bastion::hub
