// The files of a checkpoint: config.json, safetensors and the transition table.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/hub/model_config.h"
#include "common/hub/safetensors.h"
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

}  // namespace
}  // namespace bastion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  const int which = input.Byte() % 3;
  const std::string content = input.Rest();
  if (which == 0) {
    bastion::ReadConfig(content);
    return 0;
  }
  const bastion::testing::MemoryFile file(content);
  if (which == 1) {
    (void)bastion::hub::SafetensorsFile::Open(file.path());
  } else {
    (void)bastion::hub::ReadTransitionTable(file.path());
  }
  return 0;
}
