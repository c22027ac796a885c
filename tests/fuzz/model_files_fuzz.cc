// The files of a checkpoint: config.json, safetensors, the transition table, and GGUF files.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/hub/chat_template.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"
#include "common/hub/safetensors.h"
#include "common/hub/tokenizer.h"
#include "common/prior/transition_file.h"
#include "tests/fuzz/fuzz_target.h"

namespace bastion {
namespace {

void ReadConfig(const std::string& content) {
  static const std::string folder = [] {
    std::string path = absl::StrCat("/dev/shm/bastion_fuzz_", getpid());
    std::filesystem::create_directory(path);
    return path;
  }();
  std::ofstream(folder + "/config.json", std::ios::binary) << content;
  (void)hub::ReadModelConfig(folder);
  std::filesystem::remove(folder + "/config.json");
}

// The first byte of inputs that are GGUF files.
constexpr uint8_t kGguf = 'G';

// Everything that the programs read from a GGUF file.
void ReadGguf(const std::string& path) {
  (void)hub::ReadModelConfig(path);
  (void)hub::ChatTemplate::Load(path);
  if (const auto tokenizer = hub::Tokenizer::Load(path); tokenizer.ok()) {
    (void)tokenizer->Encode("ab 12 <|im_end|>", true);
  }
  const auto checkpoint = hub::Checkpoint::Open(path);
  if (!checkpoint.ok()) return;
  (void)(*checkpoint)->Identity();  // Reads every tensor.
}

}  // namespace
}  // namespace bastion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  const uint8_t first = input.Byte();
  const int which = first % 3;
  const std::string content = input.Rest();
  if (which == 0 && first != bastion::kGguf) {
    bastion::ReadConfig(content);
    return 0;
  }
  const bastion::testing::MemoryFile file(content);
  if (first == bastion::kGguf) {
    bastion::ReadGguf(file.path());
  } else if (which == 1) {
    (void)bastion::hub::SafetensorsFile::Open(file.path());
  } else {
    (void)bastion::hub::ReadTransitionTable(file.path());
  }
  return 0;
}
