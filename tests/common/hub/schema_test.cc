// JSON schemas as clients send them: references, formats, and numbers that doubles cannot hold.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/hub/grammar.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"

namespace bastion::hub {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::kByteLevelVocabulary;
using testing::kEndOfText;

class SchemaTest : public ::testing::Test {
 protected:
  absl::StatusOr<GrammarState> Compile(const std::string& schema) const {
    return compiler_.Compile(GrammarKind::kJsonSchema, schema);
  }
  // True if `text` is a document of the schema.
  bool Accepts(const std::string& schema, const std::string& text) const {
    auto state = Compile(schema);
    EXPECT_TRUE(state.ok()) << schema << ": " << state.status();
    if (!state.ok()) return false;
    for (const char byte : text) {
      if (!state->Push(static_cast<uint8_t>(byte)).ok()) return false;
    }
    const auto allowed = state->Allowed();
    return allowed.ok() && allowed->contains(kEndOfText);
  }
  // Expects an error that contains both texts.
  void ExpectRefused(const std::string& schema, const std::string& place,
                     const std::string& problem) const {
    const absl::Status status = Compile(schema).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << schema << ": " << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(place), HasSubstr(problem)));
  }

  const Tokenizer tokenizer_ = testing::LoadTokenizer(testing::ByteLevelTokenizerJson());
  const GrammarCompiler compiler_ =
      *GrammarCompiler::Create(tokenizer_, kByteLevelVocabulary, {kEndOfText});
};

TEST_F(SchemaTest, ReferencesNameDefinitions) {
  const std::string schema = R"({"$defs": {"A": {"enum": ["x"]}}, "$ref": "#/$defs/A"})";
  EXPECT_TRUE(Accepts(schema, R"("x")"));
  EXPECT_FALSE(Accepts(schema, R"("y")"));
}

TEST_F(SchemaTest, EscapesInReferencesAreDecoded) {
  for (const char* reference :
       {"#/$defs/a~1b~0c d", "#/$defs/a~1b~0c%20d", "#/%24defs/a~1b~0c d"}) {
    const std::string schema = absl::StrCat(
        R"({"$defs": {"a/b~c d": {"enum": ["x"]}}, "type": "array", "items": {"$ref": ")",
        reference, R"("}, "maxItems": 2})");
    EXPECT_TRUE(Accepts(schema, R"(["x", "x"])")) << reference;
    EXPECT_FALSE(Accepts(schema, R"(["y"])")) << reference;
  }
}

TEST_F(SchemaTest, ReferencesMayNameAnyPlace) {
  const std::string schema = R"({"type": "object", "properties": {
      "a": {"enum": [1]}, "b": {"$ref": "#/properties/a"}, "c": {"$ref": "#/other/list/1"}},
      "required": ["a", "b", "c"], "other": {"list": [true, {"format": "uri", "enum": ["z"]}]}})";
  EXPECT_TRUE(Accepts(schema, R"({"a": 1, "b": 1, "c": "z"})"));
  EXPECT_FALSE(Accepts(schema, R"({"a": 1, "b": 1, "c": 1})"));
}

TEST_F(SchemaTest, AnchorsAndIdsAreNames) {
  for (const char* reference :
       {"#name", "https://example.com/item", "https://example.com/item#",
        "https://example.com/root#/$defs/item", "https://example.com/root#name"}) {
    const std::string schema = absl::StrCat(
        R"({"$id": "https://example.com/root", "$defs": {"item": {"$anchor": "name",
            "$id": "https://example.com/item", "enum": ["x"]}}, "items": {"$ref": ")",
        reference, R"("}, "type": "array"})");
    EXPECT_TRUE(Accepts(schema, R"(["x"])")) << reference;
    EXPECT_FALSE(Accepts(schema, R"(["y"])")) << reference;
  }
}

TEST_F(SchemaTest, ReferencesMayBeRecursive) {
  for (const char* reference : {"#", "#/%24defs/tree", "#/properties/next"}) {
    const std::string schema = absl::StrCat(
        R"({"type": "object", "properties": {"next": {"anyOf": [{"type": "null"}, {"$ref": ")",
        reference, R"("}]}}, "required": ["next"], "$defs": {"tree": {"type": "object",
            "properties": {"next": {"$ref": ")",
        reference, R"("}}}}})");
    EXPECT_TRUE(Accepts(schema, R"({"next": null})")) << reference;
  }
  EXPECT_TRUE(Accepts(R"({"type": "object", "properties": {"next": {"anyOf": [{"type": "null"},
      {"$ref": "#"}]}}, "required": ["next"]})",
                      R"({"next": {"next": null}})"));
}

TEST_F(SchemaTest, AReferenceToNothingIsRefusedWithItsPlace) {
  const std::string place = "#/properties/a";
  for (const char* reference :
       {"#/$defs/B", "#/$defs/a/7", "#none", "https://example.com/x", "x"}) {
    ExpectRefused(absl::StrCat(R"({"properties": {"a": {"$ref": ")", reference,
                               R"("}}, "$defs": {"a": [1]}})"),
                  place, reference);
  }
}

// Text that looks like a schema but is a value.
TEST_F(SchemaTest, ConstantsAreNotSchemas) {
  EXPECT_TRUE(Accepts(R"({"const": {"$ref": "#/none"}})", R"({"$ref": "#/none"})"));
  EXPECT_TRUE(Accepts(R"({"type": "object", "properties": {"$ref": {"enum": [1]}, "format":
                          {"type": "string"}}, "required": ["$ref"]})",
                      R"({"$ref": 1})"));
}

TEST_F(SchemaTest, FormatsAreEnforcedOrIgnored) {
  for (const char* format : {"uri", "path", "password", "color", "int64", "iri-reference"}) {
    EXPECT_TRUE(
        Accepts(absl::StrCat(R"({"type": "string", "format": ")", format, R"("})"), R"("a")"))
        << format;
    EXPECT_TRUE(Accepts(absl::StrCat(R"({"format": ")", format, R"("})"), "1")) << format;
  }
  EXPECT_FALSE(Accepts(R"({"type": "string", "format": "date"})", R"("a")"));
  EXPECT_TRUE(Accepts(R"({"type": "string", "format": "date"})", R"("2026-11-27")"));
  const std::string uri = R"({"type": "object", "properties": {"u": {"type": "string", "format":
      "uri", "maxLength": 3}}, "required": ["u"]})";
  EXPECT_TRUE(Accepts(uri, R"({"u": "a:b"})"));
  EXPECT_FALSE(Accepts(uri, R"({"u": "a:bc"})"));
}

TEST_F(SchemaTest, NumbersThatWouldBeRoundedAreRefusedByName) {
  const char* const kOdd = "9007199254740993";  // 2^53 + 1
  for (const char* bound :
       {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "const"}) {
    for (const char* type : {R"("type": "integer", )", R"("type": "number", )", ""}) {
      ExpectRefused(absl::StrCat("{", type, "\"", bound, "\": ", kOdd, "}"), bound, kOdd);
    }
  }
  ExpectRefused(absl::StrCat(R"({"properties": {"n": {"enum": ["a", [)", kOdd, "]]}}}"),
                "#/properties/n", kOdd);
  // The next integer is not a double.
  ExpectRefused(R"({"type": "integer", "exclusiveMinimum": 9007199254740992})", "exclusiveMinimum",
                "9007199254740992");
  ExpectRefused(R"({"type": "integer", "minimum": 9007199254740992, "exclusiveMinimum": true})",
                "minimum", "9007199254740992");
}

TEST_F(SchemaTest, NumbersThatDoublesHoldAreKept) {
  const std::string large = R"({"type": "integer", "minimum": 9007199254740994,
                                "maximum": 9007199254740996})";
  EXPECT_TRUE(Accepts(large, "9007199254740995"));
  EXPECT_FALSE(Accepts(large, "9007199254740993"));
  EXPECT_FALSE(Accepts(large, "9007199254740997"));
  EXPECT_TRUE(Accepts(R"({"const": -9007199254740994})", "-9007199254740994"));
  EXPECT_TRUE(Accepts(R"({"type": "number", "maximum": 1e15})", "12.5"));
}

TEST_F(SchemaTest, TheRangesOf64BitIntegersAreAccepted) {
  const std::string all = R"({"type": "integer", "minimum": -9223372036854775808,
                              "maximum": 9223372036854775807})";
  for (const char* text : {"0", "-1", "9223372036854775807", "-9223372036854774784"}) {
    EXPECT_TRUE(Accepts(all, text)) << text;
  }
  EXPECT_FALSE(Accepts(all, "9223372036854775808"));
  EXPECT_FALSE(Accepts(all, "-9223372036854775809"));
  EXPECT_TRUE(Accepts(R"({"type": ["integer", "null"], "maximum": 9223372036854775807})", "1"));
  const std::string counts =
      R"({"type": "integer", "minimum": 0, "maximum": 18446744073709551615})";
  EXPECT_TRUE(Accepts(counts, "9223372036854775807"));
  EXPECT_FALSE(Accepts(counts, "18446744073709551616"));
}

// llguidance negated the lowest integer without end, until the stack was full.
TEST_F(SchemaTest, TheLowestIntegerIsRefused) {
  for (const char* schema :
       {R"({"const": -9223372036854775808})", R"({"enum": [-9223372036854775808]})",
        R"({"type": "integer", "minimum": -1e20, "maximum": -1e19})",
        R"({"allOf": [{"type": "integer"}, {"minimum": -1e20, "maximum": -1e19}]})",
        R"({"type": "integer", "const": -9223372036854775808.0})"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(Compile(schema).status())) << schema;
  }
}

TEST_F(SchemaTest, BoundsBeyond64BitsAreRefused) {
  ExpectRefused(R"({"type": "integer", "minimum": 1e19})", "minimum", "1e+19");
  ExpectRefused(R"({"minimum": 18446744073709551615})", "minimum", "18446744073709551615");
}

}  // namespace
}  // namespace bastion::hub
