// Tests the page, the state, and the checks of prompts.
#include "orchestrator/console/console.h"

#include <regex>

#include "tests/orchestrator/console/console_fixture.h"

namespace bastion {
namespace {

using nlohmann::json;
using testing::ConsoleTest;
using testing::Fetch;
using ::testing::HasSubstr;
using testing::HttpAnswer;
using testing::kPrompt;
using ::testing::Not;
using ::testing::SizeIs;

TEST_F(ConsoleTest, ThePageAndAllFilesThatItLoadsAreServed) {
  StartAndServe();
  const HttpAnswer page = Fetch(server_->port(), "/console");
  EXPECT_EQ(page.status, 200);
  EXPECT_THAT(page.head, HasSubstr("text/html"));
  EXPECT_THAT(page.head, HasSubstr("script-src 'self'"));
  std::vector<std::string> files = {page.body};
  const std::regex loaded(R"re((?:src|href)="(console/[^"]+)"|from '\./([^']+)')re");
  for (size_t i = 0; i < files.size(); ++i) {
    const std::string text = files[i];
    for (std::sregex_iterator it(text.begin(), text.end(), loaded), end; it != end; ++it) {
      const std::string path =
          (*it)[1].matched ? "/" + (*it)[1].str() : "/console/" + (*it)[2].str();
      const HttpAnswer file = Fetch(server_->port(), path);
      EXPECT_EQ(file.status, 200) << path;
      EXPECT_THAT(file.head, HasSubstr(path.ends_with(".css") ? "text/css" : "text/javascript"));
      files.push_back(file.body);
    }
  }
  EXPECT_GE(files.size(), 6u);
  for (const std::string& file : files) EXPECT_THAT(file, Not(HasSubstr("https://")));
}

TEST_F(ConsoleTest, TheStateOfAnIdleServiceIsComplete) {
  StartAndServe();
  const json state = State();
  ASSERT_TRUE(state.is_object());
  EXPECT_EQ(state["service"]["ready"], true);
  EXPECT_EQ(state["service"]["running"], 0);
  EXPECT_EQ(state["service"]["kv_pages"], 32 * testing::kToyContext / testing::kToyPage);
  EXPECT_EQ(state["service"]["kv_pages_free"], state["service"]["kv_pages"]);
  EXPECT_EQ(state["idle_ms"], nullptr);
  EXPECT_EQ(state["policy"], "default");
  EXPECT_THAT(state["cycles"]["number"], SizeIs(0));
  EXPECT_THAT(state["requests"], SizeIs(0));
  EXPECT_THAT(state["history"]["tokens"], SizeIs(ConsoleFeed::kIntervals));
  EXPECT_EQ(state["history"]["mean_committed_length"], nullptr);
}

TEST_F(ConsoleTest, EachRunOfTheServiceHasItsOwnName) {
  StartAndServe();
  const json run = State()["run"];
  EXPECT_EQ(State()["run"], run);
  server_.reset();
  Serve();
  EXPECT_NE(State()["run"], run);
}

TEST_F(ConsoleTest, AViewerSeesCyclesAndRequestsButNoText) {
  StartAndServe();
  State();  // A viewer is there.
  ASSERT_EQ(Post(R"({"prompt": "SECRET", "max_new_tokens": 40, "policy": "fixed:4"})").status, 200);
  ASSERT_TRUE(AwaitIdle());  // The answer may arrive before the end of its last cycle.
  const json state = State();
  const size_t cycles = state["cycles"]["number"].size();
  ASSERT_GT(cycles, 0u);
  for (const auto& [name, list] : state["cycles"].items()) {
    EXPECT_EQ(list.size(), cycles) << name;
  }
  ASSERT_THAT(state["requests"], SizeIs(1));
  const json& request = state["requests"][0];
  EXPECT_EQ(request["client"], "console");
  EXPECT_EQ(request["state"], "done");
  ASSERT_TRUE(request.contains("tree")) << request;
  const json& tree = request["tree"];
  EXPECT_EQ(tree["parents"].size(), tree["probabilities"].size());
  EXPECT_EQ(tree["parents"].size(), tree["sources"].size());
  EXPECT_FALSE(tree.contains("texts"));
  EXPECT_FALSE(tree.contains("next_text"));
  EXPECT_THAT(state.dump(), Not(HasSubstr("SECRET")));
  EXPECT_EQ(state["shows_text"], false);
  EXPECT_THAT(State(cycles)["cycles"]["number"], SizeIs(0));
}

TEST_F(ConsoleTest, WithShowTextTreesHaveTheTextOfTheirTokens) {
  StartAndServe(/*show_text=*/true);
  State();
  ASSERT_EQ(Post(R"({"prompt": "ABC", "max_new_tokens": 40, "policy": "fixed:4"})").status, 200);
  ASSERT_TRUE(AwaitIdle());  // The answer may arrive before the end of its last cycle.
  const json state = State();
  const json& tree = state["requests"][0]["tree"];
  ASSERT_TRUE(tree.contains("texts")) << tree;
  EXPECT_EQ(tree["texts"].size(), tree["parents"].size() + 1);
  EXPECT_TRUE(tree["next_text"].is_string());
  EXPECT_EQ(state["shows_text"], true);
}

TEST_F(ConsoleTest, ABadQueryIsRefused) {
  StartAndServe();
  EXPECT_EQ(Fetch(server_->port(), "/console/state?after=x").status, 400);
  EXPECT_EQ(Fetch(server_->port(), "/console/state?after=99999999999999999999").status, 400);
  EXPECT_EQ(Fetch(server_->port(), "/console/state?after=-5").status, 200);
  EXPECT_EQ(Fetch(server_->port(), "/console/generate").status, 405);
}

TEST_F(ConsoleTest, ABadPromptIsRefusedWithTheNameOfTheField) {
  StartAndServe();
  const std::string nested = std::string(400000, '[') + std::string(400000, ']');
  const std::pair<std::string, std::string> cases[] = {
      {"", "not a JSON object"},
      {"[1", "not a JSON object"},
      {"\"text\"", "not a JSON object"},
      {nested, "not a JSON object"},
      {R"({"prompt": )" + nested + "}", "prompt: must be a string"},
      {"{}", "prompt"},
      {R"({"prompt": ""})", "prompt"},
      {R"({"prompt": 3})", "prompt: must be a string"},
      {R"({"prompt": null})", "prompt: must be a string"},
      {R"({"message": 3})", "message: must be a string"},
      {R"({"message": "a", "prompt": "a"})", "message: cannot stand beside prompt"},
      {"{\"prompt\": \"\xff\"}", "not a JSON object"},
      {R"({"prompt": "\ud800"})", "not a JSON object"},
      {R"({"prompt": "a", "max_new_tokens": 0})", "max_new_tokens"},
      {R"({"prompt": "a", "max_new_tokens": -1})", "max_new_tokens"},
      {R"({"prompt": "a", "max_new_tokens": 1.5})", "max_new_tokens"},
      {R"({"prompt": "a", "max_new_tokens": 4294967296})", "max_new_tokens"},
      {R"({"prompt": "a", "max_new_tokens": "9"})", "max_new_tokens"},
      {R"({"prompt": "a", "policy": "nope"})", "policy"},
      {R"({"prompt": "a", "policy": ["ar"]})", "policy: must be a string"},
      {R"({"prompt": "a", "temperature": -1})", "temperature"},
      {R"({"prompt": "a", "temperature": 1e300})", "temperature"},
      {R"({"prompt": "a", "temperature": 1e999})", "not a JSON object"},
      {R"({"prompt": "a", "temperature": true})", "temperature"},
      {R"({"prompt": "a", "n": 64})", "n: is not a field"},
      {absl::StrCat("{\"prompt\": \"", std::string(900000, 'a'), "\"}"), "900000 bytes"},
  };
  for (const auto& [body, problem] : cases) {
    const HttpAnswer answer = Post(body);
    EXPECT_EQ(answer.status, 400) << body.substr(0, 60);
    const json error = json::parse(answer.body, nullptr, false);
    ASSERT_TRUE(error.is_object()) << answer.body;
    EXPECT_THAT(error["error"]["message"].get<std::string>(), HasSubstr(problem));
  }
  EXPECT_EQ(ends_.refused().size(), std::size(cases));
  EXPECT_EQ(Post(std::string(2 << 20, ' ')).status, 413);
  EXPECT_EQ(Post(kPrompt).status, 200);
}

TEST_F(ConsoleTest, AnUnknownFieldOfAnyBytesIsNamedInValidJson) {
  StartAndServe();
  // The name is cut in the middle of a character.
  std::string name = "x";
  for (int i = 0; i < 100; ++i) name += "\xc3\xa9";
  const HttpAnswer answer = Post(absl::StrCat("{\"", name, "\": 1}"));
  EXPECT_EQ(answer.status, 400);
  EXPECT_TRUE(json::parse(answer.body, nullptr, false).is_object());
}

TEST_F(ConsoleTest, WithoutAVerifierTheStateSaysSoAndPromptsAreRefused) {
  verifier_.SetUnavailable(true);
  Start();
  Serve();
  EXPECT_EQ(State()["service"]["ready"], false);
  EXPECT_EQ(Post(kPrompt).status, 503);
}

}  // namespace
}  // namespace bastion
