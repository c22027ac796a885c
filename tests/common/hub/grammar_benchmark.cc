// The time of a mask (GrammarState::Allowed). The vocabulary has the size of Qwen3's, or is that of
// the checkpoint folder that the environment variable BASTION_TOKENIZER names.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/base/random.h"
#include "common/hub/grammar.h"
#include "tests/support/hub_fixtures.h"

namespace bastion::hub {
namespace {

constexpr int kVocabulary = 151936;
constexpr int kMaxLength = 20;  // In the schema.
constexpr char kSchema[] =
    R"({"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 20}}},
        "required": ["name", "age", "tags"], "additionalProperties": false})";

// A vocabulary like real ones: words, with or without a space before them, and one token in 32 with
// punctuation.
std::vector<std::string> Words() {
  const char* syllables[] = {"ta", "re", "in",  "con", "st", "er", "lo", "mi", "qu", "an", "th",
                             "e",  "o",  "ing", "s",   "un", "de", "ri", "al", "ma", "ve", "ch"};
  const char* punctuation[] = {".", ",", "\"", "\",", "\": \"", "=", "_", "\n", ");", "1", "20"};
  std::vector<std::string> words;
  std::set<std::string> seen;
  for (uint32_t i = 0; words.size() < kVocabulary - 512; ++i) {
    const auto random = KeyedWords(7, 0, i);
    std::string word = random[0] % 2 == 0 ? " " : "";
    for (uint32_t k = 0; k < 2 + random[1] % 4; ++k) {
      word += syllables[(random[2] >> (6 * k)) % std::size(syllables)];
    }
    if (random[3] % 32 == 0) word += punctuation[random[3] / 32 % std::size(punctuation)];
    if (seen.insert(word).second) words.push_back(std::move(word));
  }
  return words;
}

const Tokenizer& SomeTokenizer() {
  static const auto* const tokenizer = [] {
    const char* const folder = std::getenv("BASTION_TOKENIZER");
    if (folder == nullptr) {
      return new Tokenizer(testing::LoadTokenizer(testing::WordTokenizerJson(Words())));
    }
    absl::StatusOr<Tokenizer> loaded = Tokenizer::Load(folder);
    CHECK(loaded.ok()) << loaded.status();
    return new Tokenizer(*std::move(loaded));
  }();
  return *tokenizer;
}

std::vector<TokenId> Encode(const std::string& text) {
  absl::StatusOr<std::vector<TokenId>> tokens = SomeTokenizer().Encode(text, false);
  CHECK(tokens.ok()) << tokens.status();
  return *std::move(tokens);
}

const GrammarCompiler& Compiler() {
  static const auto* const compiler = [] {
    const int vocabulary = std::max(kVocabulary, SomeTokenizer().vocabulary());
    auto made = GrammarCompiler::Create(SomeTokenizer(), vocabulary, {vocabulary - 1});
    CHECK(made.ok()) << made.status();
    return new GrammarCompiler(*std::move(made));
  }();
  return *compiler;
}

void BM_Compile(benchmark::State& state) {
  (void)Compiler();
  for (auto _ : state) {
    benchmark::DoNotOptimize(Compiler().Compile(GrammarKind::kJsonSchema, kSchema));
  }
}
BENCHMARK(BM_Compile)->Unit(benchmark::kMillisecond);

// The mask after `text`, and one token further and back, as for a node of a tree.
void MaskAfter(benchmark::State& state, const std::string& text, const char* schema = kSchema) {
  auto grammar = Compiler().Compile(GrammarKind::kJsonSchema, schema);
  CHECK(grammar.ok()) << grammar.status();
  for (const TokenId token : Encode(text)) CHECK(grammar->Push(token).ok()) << text;
  const TokenId next = Encode("a").front();
  for (auto _ : state) {
    CHECK(grammar->Push(next).ok());
    benchmark::DoNotOptimize(grammar->Allowed());
    CHECK(grammar->Pop(1).ok());
  }
}
void BM_MaskInAString(benchmark::State& state) { MaskAfter(state, R"({"name": "x)"); }
BENCHMARK(BM_MaskInAString)->Unit(benchmark::kMicrosecond);
// The argument is how many characters the string may still have.
void BM_MaskInABoundedString(benchmark::State& state) {
  const std::string used(kMaxLength - 1 - state.range(0), 'x');
  MaskAfter(state, R"({"name": "x", "age": 7, "tags": [")" + used);
}
BENCHMARK(BM_MaskInABoundedString)
    ->Unit(benchmark::kMicrosecond)
    ->Arg(0)
    ->Arg(1)
    ->Arg(3)
    ->Arg(5)
    ->Arg(7)
    ->Arg(10)
    ->Arg(14)
    ->Arg(18);
// The parser tries each token.
void BM_MaskInAStringWithAPattern(benchmark::State& state) {
  MaskAfter(state, "\"x", R"({"type": "string", "pattern": "^[a-z ]*$"})");
}
BENCHMARK(BM_MaskInAStringWithAPattern)->Unit(benchmark::kMicrosecond);
void BM_MaskInAKey(benchmark::State& state) { MaskAfter(state, R"({"n)"); }
BENCHMARK(BM_MaskInAKey)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace bastion::hub
