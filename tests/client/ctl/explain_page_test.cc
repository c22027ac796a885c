#include "client/ctl/explain_page.h"

#include <nlohmann/json.hpp>
#include <regex>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kNonce[] = "0123456789abcdef";

// A cycle that committed `texts`: accepted nodes, then the target's own token.
v1::CycleReport Cycle(const std::vector<std::string>& texts) {
  v1::CycleReport cycle;
  cycle.set_committed_length(texts.size());
  cycle.set_nodes(texts.size() - 1);
  v1::VerifiedTree& tree = *cycle.mutable_verified_tree();
  for (size_t i = 0; i + 1 < texts.size(); ++i) {
    v1::VerifiedTree::Node& node = *tree.add_nodes();
    node.set_parent(i);
    node.set_text(texts[i]);
    node.set_accepted(true);
  }
  tree.set_next_text(texts.back());
  return cycle;
}

Explanation Explained(const std::string& answer, const std::vector<v1::CycleReport>& cycles) {
  Explanation explanation;
  explanation.answer = answer;
  explanation.cycles = cycles;
  return explanation;
}

// The text of the data block of a page.
std::string DataOf(const std::string& page) {
  const std::string begin = "<script id=\"data\" type=\"application/json\">";
  const size_t from = page.find(begin) + begin.size();
  return page.substr(from, page.find("</script>", from) - from);
}

std::vector<std::string> Parts(const Explanation& explanation) {
  const json data = json::parse(DataOf(ExplainPage(explanation, kNonce)));
  std::vector<std::string> parts;
  for (const json& cycle : data["cycles"]) parts.push_back(cycle["part"]);
  return parts;
}

size_t Occurrences(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ExplainPage, EscapesTokenTextThatLooksLikeMarkup) {
  const std::string attack = "</script><!--<script>alert(1)</script><img/src=x/onerror=alert(1)>";
  Explanation explanation = Explained(attack, {Cycle({attack, attack})});
  explanation.request.set_text(attack);
  explanation.started.set_model(attack);
  explanation.cycles[0].set_budget_reason(attack);
  explanation.finished.mutable_speculation()->set_policy(attack);
  const std::string page = ExplainPage(explanation, kNonce);
  const std::string empty = ExplainPage({}, kNonce);
  for (const char* markup : {"</script", "<script", "<!--", "<img"}) {
    EXPECT_EQ(Occurrences(page, markup), Occurrences(empty, markup)) << markup;
  }
  const json data = json::parse(DataOf(page));
  EXPECT_EQ(data["prompt"], attack);
  EXPECT_EQ(data["cycles"][0]["nodes"][0][1], attack);
}

TEST(ExplainPage, TextThatLooksLikeAPlaceholderIsNotReplaced) {
  const Explanation explanation =
      Explained("{{SCRIPT}}{{NONCE}}", {Cycle({"{{SCRIPT}}{{NONCE}}"})});
  EXPECT_THAT(Parts(explanation), ElementsAre("{{SCRIPT}}{{NONCE}}"));
  EXPECT_THAT(ExplainPage({}, kNonce), Not(HasSubstr("{{")));
}

TEST(ExplainPage, OnlyTheStyleAndTheScriptWithTheNonceAreAllowed) {
  const std::string page = ExplainPage({}, kNonce);
  EXPECT_THAT(page, HasSubstr(absl::StrCat("content=\"default-src 'none'; script-src 'nonce-",
                                           kNonce, "'; style-src 'nonce-", kNonce,
                                           "'; base-uri 'none'; form-action 'none'\"")));
  EXPECT_EQ(Occurrences(page, absl::StrCat(" nonce=\"", kNonce, "\"")), 2u);
  EXPECT_EQ(Occurrences(page, "<script"), 2u) << "the data and the script";
  for (const char* forbidden : {"unsafe", " style=", " onclick=", "innerHTML", "src=", "href="}) {
    EXPECT_THAT(page, Not(HasSubstr(forbidden)));
  }
}

TEST(ExplainPage, EveryElementThatTheScriptNamesExists) {
  const std::string page = ExplainPage({}, kNonce);
  const std::regex named("(byId|getElementById)\\(\"([^\"]+)\"\\)");
  int found = 0;
  for (std::sregex_iterator match(page.begin(), page.end(), named), end; match != end; ++match) {
    ++found;
    EXPECT_THAT(page, HasSubstr(absl::StrCat(" id=\"", (*match)[2].str(), "\"")));
  }
  EXPECT_GT(found, 10);
}

TEST(ExplainPage, LoadsNothing) {
  const std::string page = ExplainPage({}, kNonce);
  EXPECT_EQ(Occurrences(page, "://"), 1u) << "the namespace of SVG";
  EXPECT_THAT(page, Not(HasSubstr("@import")));
  EXPECT_THAT(page, Not(HasSubstr("url(")));
}

TEST(ExplainPage, TheAnswerIsSplitIntoThePartsOfTheCycles) {
  EXPECT_THAT(Parts(Explained("def main():\n", {Cycle({"def", " main"}), Cycle({"():\n"})})),
              ElementsAre("def main", "():\n"));
}

TEST(ExplainPage, TokensThatTheAnswerLacksAddNothing) {
  EXPECT_THAT(Parts(Explained("a b", {Cycle({"a"}), Cycle({" b", "<|end|>"}), Cycle({""})})),
              ElementsAre("a", " b", ""));
}

TEST(ExplainPage, ACharacterThatTokensShareBelongsToTheNextToken) {
  const std::string part = "\uFFFD";
  EXPECT_THAT(Parts(Explained("a 🙂b", {Cycle({"a", " " + part}), Cycle({part, "b"})})),
              ElementsAre("a", " 🙂b"));
  EXPECT_THAT(Parts(Explained("🙂", {Cycle({part}), Cycle({part})})), ElementsAre("", "🙂"));
  EXPECT_THAT(Parts(Explained("\uFFFDaaaaaaaab", {Cycle({part}), Cycle({"b"})})),
              ElementsAre("", "\uFFFDaaaaaaaab"))
      << "text that is further away than a character is not skipped";
}

TEST(ExplainPage, CharactersThatControlTheLayoutAreVisible) {
  EXPECT_THAT(Parts(Explained("a\u202E\x1b", {Cycle({"a\u202E\x1b"})})),
              ElementsAre("a\\u{202e}\\x1b"));
}

TEST(ExplainPage, AHugeTreeIsCutAndItsParentsAreNumberedAgain) {
  Explanation explanation = Explained("", {Cycle({"x"})});
  v1::VerifiedTree& tree = *explanation.cycles[0].mutable_verified_tree();
  constexpr int kNodes = 1000;
  explanation.cycles[0].set_nodes(kNodes);
  // The second half is a chain of the more probable nodes.
  for (int i = 0; i < kNodes; ++i) {
    v1::VerifiedTree::Node& node = *tree.add_nodes();
    node.set_parent(i > kNodes / 2 ? i : 0);
    node.set_path_probability(i >= kNodes / 2 ? 0.9 : 0.1);
  }
  const json data = json::parse(DataOf(ExplainPage(explanation, kNonce)));
  const json& nodes = data["cycles"][0]["nodes"];
  ASSERT_EQ(nodes.size(), 256u);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(nodes[i][0], i - 1);
  EXPECT_EQ(data["cycles"][0]["budget"], kNodes);
}

TEST(ExplainPage, BytesThatAreNotUtf8AreShown) {
  Explanation explanation = Explained("\xff", {Cycle({"\xff"})});
  explanation.request.set_text("\xff");
  const json data = json::parse(DataOf(ExplainPage(explanation, kNonce)));
  EXPECT_EQ(data["prompt"], "\\xff");
  EXPECT_EQ(data["cycles"][0]["next"][0], "\\xff");
}

}  // namespace
}  // namespace bastion
