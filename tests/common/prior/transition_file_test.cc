#include "common/prior/transition_file.h"

#include <cstdio>
#include <cstring>
#include <map>

#include "common/hub/json_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/hub_fixtures.h"
#include "tests/support/temp_folder.h"

namespace bastion::hub {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::SafetensorsFileOf;
using testing::TempFolder;
using testing::TensorFixture;

template <typename T>
std::string Bytes(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TransitionTable SampleTable() {
  TransitionTable::Columns columns;
  columns.vocabulary = 3;
  columns.occurrences = {6, 5, 4'000'000'000};
  columns.pairs = {1, 8};
  columns.totals = {8, 0, 0, 5, 70000};
  columns.offsets = {0, 2, 2, 2, 3, 4};
  columns.tokens = {1, 2, 2, 0};
  columns.counts = {5, 2, 4, 65535};
  return *TransitionTable::Make(columns);
}

class TransitionFileTest : public ::testing::Test {
 protected:
  // The sample's tensors, widest element type first. A test replaces one of them.
  static std::map<std::string, TensorFixture> Tensors() {
    const TransitionTable sample = SampleTable();
    const TransitionTable::Columns& columns = sample.columns();
    return {{"0", {"facts", "I64", {2}, Bytes<int64_t>({1, 3})}},
            {"1", {"pairs", "U64", {2}, Bytes(columns.pairs)}},
            {"2", {"occurrences", "U32", {3}, Bytes(columns.occurrences)}},
            {"3", {"totals", "U32", {5}, Bytes(columns.totals)}},
            {"4", {"offsets", "U32", {6}, Bytes(columns.offsets)}},
            {"5", {"tokens", "I32", {4}, Bytes(columns.tokens)}},
            {"6", {"counts", "U16", {4}, Bytes(columns.counts)}}};
  }
  absl::StatusOr<TransitionTable> Read(const std::map<std::string, TensorFixture>& tensors) {
    std::vector<TensorFixture> list;
    for (const auto& [place, tensor] : tensors) list.push_back(tensor);
    return ReadBytes(SafetensorsFileOf(list));
  }
  absl::StatusOr<TransitionTable> ReadBytes(const std::string& bytes) {
    std::remove(path_.c_str());  // Overwriting a file is slow on some file systems.
    folder_.Write(kTransitionFileName, bytes);
    return ReadTransitionTable(path_);
  }
  // Replaces the tensor at `place` of the sample and expects `reason` in the error.
  void ExpectRefused(const std::string& place, const TensorFixture& tensor,
                     const std::string& reason) {
    auto tensors = Tensors();
    tensors[place] = tensor;
    const absl::Status status = Read(tensors).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(path_), HasSubstr(reason)));
  }
  TempFolder folder_;
  const std::string path_ = folder_.File(kTransitionFileName);
};

void ExpectSample(const absl::StatusOr<TransitionTable>& table) {
  ASSERT_TRUE(table.ok()) << table.status();
  const TransitionTable sample = SampleTable();
  const TransitionTable::Columns &got = table->columns(), &want = sample.columns();
  EXPECT_EQ(got.vocabulary, want.vocabulary);
  EXPECT_EQ(got.occurrences, want.occurrences);
  EXPECT_EQ(got.pairs, want.pairs);
  EXPECT_EQ(got.totals, want.totals);
  EXPECT_EQ(got.offsets, want.offsets);
  EXPECT_EQ(got.tokens, want.tokens);
  EXPECT_EQ(got.counts, want.counts);
}

TEST_F(TransitionFileTest, ReadsWhatWasWritten) {
  ASSERT_TRUE(WriteTransitionTable(SampleTable(), path_).ok());
  const auto table = ReadTransitionTable(path_);
  ExpectSample(table);
  EXPECT_THAT(table->After(2, 2).counts, ElementsAre(65535));
}

TEST_F(TransitionFileTest, ReadsATableWithoutPairs) {
  TransitionTable::Columns columns;
  columns.vocabulary = 1;
  columns.occurrences = {7};
  columns.totals = {0};
  columns.offsets = {0, 0};
  ASSERT_TRUE(WriteTransitionTable(*TransitionTable::Make(columns), path_).ok());
  const auto table = ReadTransitionTable(path_);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->After(0, 0).total, 0.0f);
}

TEST_F(TransitionFileTest, ReadsTheDocumentedFormat) { ExpectSample(Read(Tensors())); }

TEST_F(TransitionFileTest, AMissingFileIsNotFound) {
  const absl::Status status = ReadTransitionTable(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr(path_));
}

TEST_F(TransitionFileTest, FindAcceptsAFolderOrAFile) {
  ASSERT_TRUE(WriteTransitionTable(SampleTable(), path_).ok());
  const int vocabulary = SampleTable().vocabulary();
  for (const std::string& place : {folder_.path(), path_}) {
    const auto found = FindTransitionTable(place, vocabulary);
    ASSERT_TRUE(found.ok()) << found.status();
    ASSERT_NE(*found, nullptr);
    EXPECT_EQ((*found)->columns().tokens, SampleTable().columns().tokens);
  }
  const auto other = FindTransitionTable(folder_.path(), vocabulary + 1);
  EXPECT_EQ(other.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(other.status().message(), HasSubstr(path_));
}

TEST_F(TransitionFileTest, FindReturnsNullOnlyForAFolder) {
  const auto found = FindTransitionTable(folder_.path(), 3);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, nullptr);
  EXPECT_EQ(FindTransitionTable(path_, 3).status().code(), absl::StatusCode::kNotFound);
}

TEST_F(TransitionFileTest, AFileTruncatedAnywhereIsInvalid) {
  ASSERT_TRUE(WriteTransitionTable(SampleTable(), path_).ok());
  const std::string whole = *ReadTextFile(path_);
  for (size_t length = 0; length < whole.size(); ++length) {
    const absl::Status status = ReadBytes(whole.substr(0, length)).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << length << " " << status;
    ASSERT_THAT(status.message(), HasSubstr(path_));
  }
}

TEST_F(TransitionFileTest, AFileWithAFlippedBitIsEitherReadOrInvalid) {
  ASSERT_TRUE(WriteTransitionTable(SampleTable(), path_).ok());
  const std::string whole = *ReadTextFile(path_);
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string damaged = whole;
    damaged[bit / 8] = static_cast<char>(damaged[bit / 8] ^ (1 << (bit % 8)));
    const auto table = ReadBytes(damaged);
    if (table.ok()) continue;  // The bit changed only a count or a total.
    ASSERT_EQ(table.status().code(), absl::StatusCode::kInvalidArgument) << table.status();
  }
}

TEST_F(TransitionFileTest, ADifferentVersionIsRefused) {
  ExpectRefused("0", {"facts", "I64", {2}, Bytes<int64_t>({2, 3})},
                "'facts': expected format version 1, got 2; create the file again");
  ExpectRefused("0", {"facts", "I64", {0}, ""}, "expected format version 1");
  ExpectRefused("0", {"facts", "I64", {3}, Bytes<int64_t>({1, 3, 0})}, "expected 2 entries, got 3");
}

TEST_F(TransitionFileTest, AnInvalidVocabularyIsRefused) {
  for (const int64_t vocabulary : {int64_t{0}, int64_t{-3}, int64_t{1} << 32}) {
    ExpectRefused("0", {"facts", "I64", {2}, Bytes<int64_t>({1, vocabulary})}, "'facts'");
  }
}

TEST_F(TransitionFileTest, WrongTypesAndShapesAreRefused) {
  ExpectRefused("6", {"counts", "I32", {4}, Bytes<int32_t>({5, 2, 4, 1})},
                "'counts' has dtype I32 and 1 dimensions, expected U16 and 1");
  ExpectRefused("6", {"counts", "U8", {4}, "1234"}, "'counts' has dtype U8");
  ExpectRefused("6", {"counts", "U16", {2, 2}, "12345678"}, "'counts' has dtype U16 and 2");
  ExpectRefused("6", {"counts", "U16", {3}, "123456"}, "4 tokens, 3 counts");
}

TEST_F(TransitionFileTest, AMissingTensorIsReported) {
  ExpectRefused("6", {"other", "U16", {4}, "12345678"}, "no tensor 'counts'");
}

TEST_F(TransitionFileTest, ATokenOutsideTheVocabularyIsReported) {
  ExpectRefused("5", {"tokens", "I32", {4}, Bytes<int32_t>({1, 2, 3, 0})},
                "tokens[2] is outside the vocabulary");
}

TEST_F(TransitionFileTest, OffsetsOutsideTheContinuationsAreReported) {
  ExpectRefused("4", {"offsets", "U32", {6}, Bytes<uint32_t>({0, 2, 0x7FFFFFFF, 2, 3, 4})},
                "offsets[2] is above the next offset");
}

TEST_F(TransitionFileTest, WritingIntoAMissingFolderFails) {
  const absl::Status status =
      WriteTransitionTable(SampleTable(), folder_.File("none/t.safetensors"));
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound) << status;
  EXPECT_THAT(status.message(), HasSubstr("none/t.safetensors"));
}

}  // namespace
}  // namespace bastion::hub
