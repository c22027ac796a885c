#include "common/hub/config_fields.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace bastion::hub {
namespace {

// The fields that `transformers` writes for every model and that do not change the logits.
const std::set<std::string_view>& HarmlessFields() {
  static const auto* const fields = new std::set<std::string_view>{
      // Metadata.
      "architectures", "model_type", "transformers_version", "auto_map", "name_or_path",
      "tokenizer_class", "finetuning_task", "task_specific_params", "problem_type", "id2label",
      "label2id", "num_labels", "unsloth_fixed", "unsloth_version", "is_llama_config",
      // Settings of other programs.
      "transformers.js_config", "attn_implementation", "max_sequence_length", "model_max_length",
      // Special tokens that only text processing uses.
      "pad_token_id", "unk_token_id", "sep_token_id", "mask_token_id", "decoder_start_token_id",
      "prefix",
      // What the Python object returns and how it runs.
      "use_cache", "return_dict", "output_hidden_states", "output_attentions",
      "output_router_logits", "torchscript", "use_bfloat16", "tf_legacy_loss",
      "chunk_size_feed_forward", "is_decoder", "tie_encoder_decoder", "cross_attention_hidden_size",
      "pretraining_tp", "gradient_checkpointing", "use_flash_attn",
      // Training.
      "initializer_range", "attention_dropout", "attention_probs_dropout_prob", "hidden_dropout",
      "hidden_dropout_prob", "classifier_dropout", "router_aux_loss_coef", "embd_pdrop",
      "attn_pdrop", "resid_pdrop", "embedding_dropout", "residual_dropout",
      // Defaults of Python's generate().
      "max_length", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
      "diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty",
      "length_penalty", "no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "bad_words_ids",
      "num_return_sequences", "output_scores", "return_dict_in_generate", "forced_bos_token_id",
      "forced_eos_token_id", "remove_invalid_values", "exponential_decay_length_penalty",
      "suppress_tokens", "begin_suppress_tokens"};
  return *fields;
}

}  // namespace

absl::Status CheckKnownFields(const JsonObject& json, const std::vector<std::string>& known) {
  for (const auto& [key, value] : json.json().items()) {
    // Names with an underscore are the library's own notes, such as _name_or_path.
    if (value.is_null() || absl::StartsWith(key, "_") || HarmlessFields().count(key) > 0) continue;
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    return absl::UnimplementedError(
        absl::StrCat(json.origin(), ": the engines do not know the field '", key,
                     "', which may change what the model computes; remove it only if it does not"));
  }
  return absl::OkStatus();
}

absl::Status CheckFixedFields(const JsonObject& json, const std::vector<FixedField>& fields) {
  for (const FixedField& field : fields) {
    const nlohmann::json* value = json.Find(field.key.c_str());
    if (value == nullptr || *value == field.value) continue;
    return absl::UnimplementedError(absl::StrCat(json.origin(), ": '", field.key, "' is ",
                                                 value->dump(), "; the engines support only ",
                                                 field.value.dump()));
  }
  return absl::OkStatus();
}

}  // namespace bastion::hub
