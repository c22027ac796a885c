// A small served model on disk: a config and a byte-level tokenizer, without weights.
#ifndef BASTION_TESTS_ORCHESTRATOR_INTAKE_SERVED_MODEL_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_INTAKE_SERVED_MODEL_FIXTURE_H_

#include <memory>

#include "common/base/check.h"
#include "orchestrator/intake/served_model.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion::testing {

inline nlohmann::json ServedConfigJson(int context) {
  return {{"architectures", {"Qwen3ForCausalLM"}},
          {"model_type", "qwen3"},
          {"hidden_size", 32},
          {"intermediate_size", 40},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"head_dim", 32},
          {"vocab_size", kByteLevelVocabulary},
          {"rope_theta", 1000000.0},
          {"rms_norm_eps", 1e-6},
          {"max_position_embeddings", context},
          {"hidden_act", "silu"},
          {"attention_bias", false},
          {"tie_word_embeddings", true},
          {"eos_token_id", kEndOfText},
          {"torch_dtype", "float32"}};
}

class ServedModelFixture {
 public:
  // Without a chat template if `chat_template` is empty.
  explicit ServedModelFixture(int context = 512, const std::string& chat_template = "") {
    if (!chat_template.empty()) folder_.Write("chat_template.jinja", chat_template);
    folder_.Write("config.json", ServedConfigJson(context).dump());
    folder_.Write("tokenizer.json", ByteLevelTokenizerJson().dump());
    auto model = ServedModel::Load(folder_.path());
    CHECK(model.ok()) << model.status();
    model_ = *std::move(model);
  }
  [[nodiscard]] const ServedModel& model() const { return *model_; }

 private:
  TempFolder folder_;
  std::unique_ptr<ServedModel> model_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_INTAKE_SERVED_MODEL_FIXTURE_H_
