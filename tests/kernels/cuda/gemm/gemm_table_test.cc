#include "kernels/cuda/gemm/gemm_table.h"

#include <unistd.h>

#include <fstream>
#include <iterator>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace bastion::kernels::cuda {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

class GemmTableTest : public testing::Test {
 protected:
  ~GemmTableTest() override { unlink(path_.c_str()); }

  static std::vector<GemmEntry> Entries() {
    GemmEntry first;
    first.device = "NVIDIA H100 80GB HBM3";
    first.library = 130102;
    first.shape = {DType::kBF16, 32, 24576, 4096, false};
    for (size_t i = 0; i < 8; ++i) first.algorithm[i] = 0x0123456789ABCDEFu << i;
    first.microseconds = 71.25;
    GemmEntry second = first;
    second.shape = {DType::kF32, 1, 4096, 12288, true};
    second.algorithm = {};
    return {first, second};
  }
  void Put(const std::string& text) { std::ofstream(path_) << text; }
  [[nodiscard]] std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void ExpectRefused(const std::string& text, int line) {
    Put(text);
    const auto read = ReadGemmTable(path_);
    ASSERT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(read.status().message()),
                HasSubstr(path_ + ":" + std::to_string(line) + ":"));
  }

  const std::string path_ = testing::TempDir() + "gemm_table" + std::to_string(getpid());
};

TEST_F(GemmTableTest, AMissingFileIsAnEmptyTable) {
  const auto read = ReadGemmTable(path_);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_THAT(*read, IsEmpty());
}

TEST_F(GemmTableTest, ReadsWhatWasWritten) {
  for (const auto& entries : {std::vector<GemmEntry>{}, Entries()}) {
    ASSERT_TRUE(WriteGemmTable(path_, entries).ok());
    const auto read = ReadGemmTable(path_);
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, entries);
  }
}

TEST_F(GemmTableTest, AFileThatCannotBeWrittenIsReported) {
  const std::string nowhere = path_ + "/table";
  EXPECT_EQ(WriteGemmTable(nowhere, Entries()).code(), absl::StatusCode::kUnavailable);
}

TEST_F(GemmTableTest, DamagedLinesAreReportedWithTheirNumber) {
  ASSERT_TRUE(WriteGemmTable(path_, Entries()).ok());
  const std::string whole = Text();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string text = whole;
    const size_t at = text.rfind(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  ExpectRefused("{}\n", 1);
  ExpectRefused(changed("bastion-gemm-1", "bastion-gemm-2"), 1);
  ExpectRefused(changed("\nNVIDIA H100 80GB HBM3\t", "\n\t"), 3);
  ExpectRefused(changed("\t130102\t", "\t13.1\t"), 3);
  ExpectRefused(changed("\tfp32\t", "\tint8\t"), 3);
  ExpectRefused(changed("\t4096\t12288\t", "\t4096\t"), 3);
  ExpectRefused(changed("\t4096\t12288\t", "\t4096\t-3\t"), 3);
  ExpectRefused(changed("\t4096\t12288\t", "\t4096\t99999999999\t"), 3);
  ExpectRefused(changed("\tadd\t", "\tsum\t"), 3);
  ExpectRefused(changed("\t00", "\t0"), 3);
  ExpectRefused(changed("\t00", "\t0x"), 3);
  ExpectRefused(changed("\t71.250", "\tfast"), 3);
  ExpectRefused(changed("\t71.250\n", "\t71."), 3);
  ExpectRefused(whole + "\n", 4);
}

}  // namespace
}  // namespace bastion::kernels::cuda
