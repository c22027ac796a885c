// Any chat template, which comes with the checkpoint, with any conversation and arguments, which
// come from clients.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/hub/chat_template.h"
#include "tests/fuzz/fuzz_target.h"

namespace bastion::hub {
namespace {

constexpr size_t kMaxMessages = 64;

// True if the template may double a string again and again. The engine limits the steps of a
// template but not its memory, and operators choose their checkpoints.
bool MayDouble(const std::string& source) {
  const auto has = [&](const char* text) { return source.find(text) != std::string::npos; };
  return source.find_first_of("~+*") != std::string::npos && (has("set") || has("macro"));
}

absl::StatusOr<ChatTemplate> LoadSource(const std::string& source) {
  static const std::string folder = [] {
    std::string path = absl::StrCat("/dev/shm/bastion_fuzz_", getpid());
    std::filesystem::create_directory(path);
    return path;
  }();
  std::ofstream(folder + "/chat_template.jinja", std::ios::binary) << source;
  auto loaded = ChatTemplate::Load(folder);
  std::filesystem::remove(folder + "/chat_template.jinja");
  return loaded;
}

}  // namespace
}  // namespace bastion::hub

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  const bool add_generation_prompt = input.Byte() % 2 != 0;
  const std::string source = input.Text();
  if (bastion::hub::MayDouble(source)) return 0;
  const auto chat = bastion::hub::LoadSource(source);
  if (!chat.ok()) return 0;
  const std::string arguments = input.Text();
  std::vector<bastion::hub::ChatMessage> messages;
  while (!input.empty() && messages.size() < bastion::hub::kMaxMessages) {
    std::string role = input.Text();
    messages.push_back({std::move(role), input.Text()});
  }
  (void)chat->Render(messages, add_generation_prompt, arguments);
  return 0;
}
