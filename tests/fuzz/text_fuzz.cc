// Text on its way in and out: tokenizer and detokenizer across the border to Rust, and stop strings
// against a naive search. chat_template_fuzz.cc has the chat templates.
#include <algorithm>

#include "common/base/check.h"
#include "common/hub/detokenizer.h"
#include "common/hub/tokenizer.h"
#include "orchestrator/text/stop_strings.h"
#include "tests/fuzz/fuzz_target.h"

namespace bastion {
namespace {

const hub::Tokenizer& DemoTokenizer() {
  static const auto& tokenizer =
      *new auto(hub::Tokenizer::Load(BASTION_SOURCE_DIR "/deploy/demo_model/target"));
  CHECK(tokenizer.ok()) << tokenizer.status();
  return *tokenizer;
}

void EncodeAndDecode(testing::FuzzInput& input) {
  const hub::Tokenizer& tokenizer = DemoTokenizer();
  const std::string text = input.Rest();
  const auto ids = tokenizer.Encode(text, /*add_special=*/true);
  if (!ids.ok()) return;
  const auto decoded = tokenizer.Decode(*ids, /*skip_special=*/true);
  CHECK(decoded.ok()) << decoded.status();
}

void DecodeIds(testing::FuzzInput& input) {
  std::vector<TokenId> ids;
  while (!input.empty()) {
    ids.push_back(static_cast<TokenId>(input.Byte() << 16 | input.Byte() << 8 | input.Byte()));
  }
  CHECK(DemoTokenizer().Decode(ids, /*skip_special=*/false).ok());
}

// The position after the first end of a stop string in `text`; npos if there is none.
size_t FirstEnd(const std::string& text, const std::vector<std::string>& stops) {
  for (size_t end = 1; end <= text.size(); ++end) {
    for (const std::string& stop : stops) {
      if (end >= stop.size() && text.compare(end - stop.size(), stop.size(), stop) == 0) return end;
    }
  }
  return std::string::npos;
}

void Stop(testing::FuzzInput& input) {
  std::vector<std::string> stops(1 + input.Byte() % 4);
  for (std::string& stop : stops) stop = input.Text();
  auto matcher = StopStrings::Create(stops);
  if (!matcher.ok()) return;
  std::string text, passed;
  while (!input.empty() && !matcher->stopped()) {
    std::string piece(1, static_cast<char>(input.Byte()));
    text += piece;
    passed += matcher->Push(piece);
  }
  const size_t end = FirstEnd(text, stops);
  CHECK_EQ(matcher->stopped(), end != std::string::npos);
  if (!matcher->stopped()) {
    CHECK_EQ(passed + matcher->TakeHeldText(), text);
    return;
  }
  CHECK_EQ(passed, text.substr(0, end - matcher->match().size()));
}

}  // namespace
}  // namespace bastion

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  bastion::testing::FuzzInput input(data, size);
  constexpr void (*kTargets[])(bastion::testing::FuzzInput&) = {bastion::EncodeAndDecode,
                                                                bastion::DecodeIds, bastion::Stop};
  kTargets[input.Byte() % std::size(kTargets)](input);
  return 0;
}
