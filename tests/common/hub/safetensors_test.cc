#include "common/hub/safetensors.h"

#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using ::testing::AllOf;
using testing::CountingFloats;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SafetensorsFileOf;
using testing::TempFolder;

class SafetensorsTest : public ::testing::Test {
 protected:
  absl::StatusOr<SafetensorsFile> Open(std::string_view bytes) {
    folder_.Write("m.safetensors", bytes);
    return SafetensorsFile::Open(folder_.File("m.safetensors"));
  }
  // Expects an error that names the file and contains `reason`.
  void ExpectRefused(std::string_view bytes, const std::string& reason) {
    const absl::Status status = Open(bytes).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr("m.safetensors"), HasSubstr(reason)));
  }
  TempFolder folder_;
};

std::string TwoTensors() {
  return SafetensorsFileOf({{"a", "F32", {2, 3}, CountingFloats(6)},
                            {"b", "BF16", {2}, std::string("\x80\x3F\x00\x40", 4)}});
}

TEST_F(SafetensorsTest, ReadsWhatWasWritten) {
  const auto file = Open(TwoTensors());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_THAT(file->TensorNames(), ElementsAre("a", "b"));
  const auto a = file->Tensor("a");
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(a->dtype, DType::kF32);
  EXPECT_THAT(a->shape, ElementsAre(2, 3));
  EXPECT_EQ(std::memcmp(a->data, CountingFloats(6).data(), a->bytes), 0);
  EXPECT_EQ(a->bytes, 24u);
  const auto b = file->Tensor("b");
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ(b->dtype, DType::kBF16);
  EXPECT_EQ(b->bytes, 4u);
}

TEST_F(SafetensorsTest, ViewsStayValidWhenTheFileObjectIsMoved) {
  auto file = Open(TwoTensors());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto view = file->Tensor("a");
  ASSERT_TRUE(view.ok()) << view.status();
  const SafetensorsFile moved = *std::move(file);
  EXPECT_EQ(static_cast<const float*>(view->data)[5], 5.0f);
}

TEST_F(SafetensorsTest, AFileMayHaveNoTensors) {
  const auto file = Open(SafetensorsFileOf("{}", ""));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->TensorNames().empty());
}

TEST_F(SafetensorsTest, AMissingFileIsNotFound) {
  const absl::Status status = SafetensorsFile::Open(folder_.File("no.safetensors")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("no.safetensors"));
}

TEST_F(SafetensorsTest, RefusesAFolder) {
  EXPECT_THAT(SafetensorsFile::Open(folder_.path()).status().message(),
              HasSubstr("not a regular file"));
}

TEST_F(SafetensorsTest, AMissingTensorIsReported) {
  const auto file = Open(TwoTensors());
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = file->Tensor("c").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("m.safetensors"), HasSubstr("'c'")));
}

TEST_F(SafetensorsTest, RefusesFilesWithAnIncompleteHeaderLength) {
  ExpectRefused("", "header too small");
  ExpectRefused("1234567", "header too small");
}

TEST_F(SafetensorsTest, RefusesATruncatedHeader) {
  ExpectRefused(TwoTensors().substr(0, 40), "bytes in a file of 40; is it truncated?");
}

TEST_F(SafetensorsTest, TruncatedDataIsReportedWithTheTensor) {
  const std::string whole = TwoTensors();
  ExpectRefused(whole.substr(0, whole.size() - 1), "tensor 'b' ends at byte 28");
  ExpectRefused(whole.substr(0, whole.size() - 5), "tensor 'a' ends at byte 24");
}

TEST_F(SafetensorsTest, RefusesBytesAfterTheLastTensor) {
  ExpectRefused(TwoTensors() + "x", "the tensors end at byte 28 of 29");
}

TEST_F(SafetensorsTest, RefusesAHeaderThatIsTooLarge) {
  ExpectRefused(std::string(8, '\xFF') + "{}", "header too large");
}

TEST_F(SafetensorsTest, RefusesAHeaderThatIsNotJson) {
  ExpectRefused(SafetensorsFileOf("not json", ""), "invalid JSON in header");
  ExpectRefused(SafetensorsFileOf("[1, 2]  ", ""), "invalid JSON in header");
  ExpectRefused(SafetensorsFileOf("{\"\xFF\": 1}", ""), "invalid UTF-8 in header");
  ExpectRefused(SafetensorsFileOf(std::string(100000, '['), ""), "invalid JSON in header");
}

std::string OneTensor(const std::string& dtype, const std::string& shape,
                      const std::string& offsets) {
  return R"({"w": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" +
         offsets + "}}";
}

TEST_F(SafetensorsTest, RefusesOffsetsOutsideTheFile) {
  ExpectRefused(SafetensorsFileOf(OneTensor("F32", "[4]", "[0, 16]"), "12345678"),
                "tensor 'w' ends at byte 16 of the data, but the file has 8");
  ExpectRefused(SafetensorsFileOf(OneTensor("F32", "[2]", "[8, 0]"), "12345678"),
                "tensor 'w' begins at byte 8 after its end 0");
}

TEST_F(SafetensorsTest, RefusesOffsetsThatOverflow) {
  const std::string huge = "18446744073709551608";  // 2^64 - 8
  ExpectRefused(
      SafetensorsFileOf(OneTensor("U8", "[" + huge + "]", "[0, " + huge + "]"), "12345678"),
      "tensor 'w'");
}

TEST_F(SafetensorsTest, RefusesOverlapsAndGaps) {
  const std::string a = R"({"a": {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]}, "b": )";
  ExpectRefused(
      SafetensorsFileOf(a + R"({"dtype": "U8", "shape": [4], "data_offsets": [2, 6]}})", "123456"),
      "tensor 'b' overlaps the one before it: begins at 2, expected 4");
  ExpectRefused(SafetensorsFileOf(a + R"({"dtype": "U8", "shape": [4], "data_offsets": [5, 9]}})",
                                  "123456789"),
                "tensor 'b' leaves a gap: begins at 5, expected 4");
}

TEST_F(SafetensorsTest, RefusesAShapeThatDoesNotMatchTheBytes) {
  ExpectRefused(SafetensorsFileOf(OneTensor("F32", "[3]", "[0, 8]"), "12345678"),
                "tensor 'w' of shape [3] and dtype F32 does not have 8 bytes");
  ExpectRefused(
      SafetensorsFileOf(OneTensor("F32", "[4294967296, 4294967296]", "[0, 8]"), "12345678"),
      "tensor 'w' of shape [4294967296,4294967296]");
}

TEST_F(SafetensorsTest, RefusesAnUnknownDType) {
  ExpectRefused(SafetensorsFileOf(OneTensor("F99", "[2]", "[0, 8]"), "12345678"),
                "tensor 'w' has the unknown dtype 'F99'");
}

TEST_F(SafetensorsTest, AnUnsupportedDTypeIsUnimplemented) {
  const auto file = Open(SafetensorsFileOf(OneTensor("F64", "[1]", "[0, 8]"), "12345678"));
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = file->Tensor("w").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(),
              AllOf(HasSubstr("m.safetensors"), HasSubstr("'w'"), HasSubstr("F64"),
                    HasSubstr("F32, BF16, F16, U16, I32, U32, I64, U64")));
}

TEST_F(SafetensorsTest, ReadsIntegerTensors) {
  const auto file = Open(SafetensorsFileOf(
      {{"a", "I64", {1}, "12345678"}, {"b", "U32", {1}, "1234"}, {"c", "U16", {1}, "12"}}));
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->Tensor("a")->dtype, DType::kI64);
  EXPECT_EQ(file->Tensor("b")->dtype, DType::kU32);
  EXPECT_EQ(file->Tensor("c")->dtype, DType::kU16);
}

TEST_F(SafetensorsTest, RefusesUnalignedData) {
  const auto file =
      Open(SafetensorsFileOf({{"a", "U8", {1}, "x"}, {"b", "F32", {1}, CountingFloats(1)}}));
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = file->Tensor("b").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("'b'"), HasSubstr("not aligned")));
}

}  // namespace
}  // namespace bastion::hub
