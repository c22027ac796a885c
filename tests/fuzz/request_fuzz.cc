// GenerateRequest, as clients send it: bounds, tokenizer, sampling, policy.
#include "common/base/check.h"
#include "orchestrator/intake/request_parser.h"
#include "orchestrator/intake/served_model.h"
#include "tests/fuzz/fuzz_target.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const auto& model =
      *new auto(bastion::ServedModel::Load(BASTION_SOURCE_DIR "/deploy/demo_model/target"));
  CHECK(model.ok()) << model.status();
  static const auto& parser =
      *new bastion::RequestParser(model->get(), *bastion::Policy::Parse("default"));
  bastion::v1::GenerateRequest request;
  if (!request.ParseFromArray(data, static_cast<int>(size))) return 0;
  const auto parsed = parser.Parse(request);
  if (!parsed.ok()) {
    // Errors repeat no long strings of the client.
    CHECK_LT(parsed.status().message().size(), 4096u) << parsed.status();
    return 0;
  }
  CHECK(!parsed->decode.prompt.empty());
  return 0;
}
