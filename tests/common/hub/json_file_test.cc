#include "common/hub/json_file.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::TempFolder;

class JsonFileTest : public ::testing::Test {
 protected:
  absl::StatusOr<JsonObject> Read(std::string_view text) {
    folder_.Write("x.json", text);
    return JsonObject::Read(folder_.File("x.json"));
  }
  TempFolder folder_;
};

TEST_F(JsonFileTest, GetsTypedValuesAndFallbacks) {
  const auto object = Read(R"({"i": 3, "d": 0.5, "b": true, "s": "é", "none": null})");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_EQ(*object->Get<int>("i"), 3);
  EXPECT_EQ(*object->Get<double>("i"), 3.0);
  EXPECT_EQ(*object->Get<double>("d"), 0.5);
  EXPECT_EQ(*object->Get<bool>("b"), true);
  EXPECT_EQ(*object->Get<std::string>("s"), "é");
  EXPECT_EQ(*object->Get<int>("absent", 7), 7);
  EXPECT_EQ(*object->Get<int>("none", 7), 7);
  EXPECT_FALSE(object->Has("none"));
}

TEST_F(JsonFileTest, AWrongTypeIsReportedWithFileAndKey) {
  const auto object = Read(R"({"i": 1.5, "b": "yes", "big": 4294967296, "n": [1, "x"]})");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_THAT(object->Get<int>("i").status().message(),
              AllOf(HasSubstr("x.json: 'i' must be a 32-bit integer")));
  EXPECT_THAT(object->Get<int>("big").status().message(), HasSubstr("'big' must be"));
  EXPECT_THAT(object->Get<bool>("b").status().message(), HasSubstr("'b' must be true or false"));
  EXPECT_THAT(object->Get<int>("z").status().message(), HasSubstr("'z' is missing"));
  EXPECT_THAT(object->Integers("n").status().message(), HasSubstr("'n' must be an integer or"));
  EXPECT_THAT(object->Child("b").status().message(), HasSubstr("'b' must be an object"));
}

TEST_F(JsonFileTest, IntegersAcceptsOneIntegerOrAList) {
  const auto object = Read(R"({"one": 4, "many": [2, 1], "child": {"many": "x"}})");
  ASSERT_TRUE(object.ok()) << object.status();
  EXPECT_THAT(*object->Integers("one"), ElementsAre(4));
  EXPECT_THAT(*object->Integers("many"), ElementsAre(2, 1));
  EXPECT_THAT(*object->Integers("absent"), IsEmpty());
  const auto child = object->Child("child");
  ASSERT_TRUE(child.ok()) << child.status();
  EXPECT_THAT(child->Integers("many").status().message(), HasSubstr("x.json: 'child': 'many'"));
}

TEST_F(JsonFileTest, RefusesAnythingButAJsonObject) {
  EXPECT_EQ(Read("{\"a\": ").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(Read("{\"a\": ").status().message(), HasSubstr("x.json"));
  EXPECT_THAT(Read("").status().message(), HasSubstr("x.json"));
  EXPECT_THAT(Read("[1]").status().message(), HasSubstr("not a JSON object"));
}

TEST_F(JsonFileTest, RefusesInvalidUtf8) {
  EXPECT_THAT(Read("{\"a\": \"\xFF\"}").status().message(),
              HasSubstr("x.json is not UTF-8 at byte 7"));
}

TEST_F(JsonFileTest, OnlyReadOptionalAcceptsAMissingFile) {
  const std::string path = folder_.File("none.json");
  EXPECT_TRUE(absl::IsNotFound(JsonObject::Read(path).status()));
  EXPECT_THAT(JsonObject::Read(path).status().message(), HasSubstr("none.json"));
  const auto optional = JsonObject::ReadOptional(path);
  ASSERT_TRUE(optional.ok()) << optional.status();
  EXPECT_TRUE(optional->json().empty());
}

TEST_F(JsonFileTest, RefusesAFolder) {
  EXPECT_FALSE(JsonObject::Read(folder_.path()).ok());
  EXPECT_FALSE(JsonObject::ReadOptional(folder_.path()).ok());
}

TEST_F(JsonFileTest, SurvivesDeepNesting) {
  const std::string deep(200000, '[');
  EXPECT_FALSE(Read("{\"a\": " + deep).ok());
  // Valid JSON, whose copy would overflow the stack.
  EXPECT_THAT(Read("{\"a\": " + deep + std::string(200000, ']') + "}").status().message(),
              HasSubstr("nested deeper"));
  EXPECT_TRUE(Read("{\"a\": " + std::string(50, '[') + std::string(50, ']') + "}").ok());
}

}  // namespace
}  // namespace bastion::hub
