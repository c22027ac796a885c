#include "kernels/cuda/gemm/gemm.h"

#include <unistd.h>

#include <fstream>

#include "gmock/gmock.h"
#include "tests/kernels/cuda/device_test_support.h"

namespace bastion::kernels::cuda {
namespace {

using testing::HasSubstr;

constexpr float kPoison = 12345.0f;

class GemmTest : public DeviceTest, public testing::WithParamInterface<DType> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    if (!IsSkipped()) gemm_ = Make();
  }
  static std::unique_ptr<Gemm> Make() {
    auto gemm = Gemm::Create();
    EXPECT_TRUE(gemm.ok()) << gemm.status();
    return *std::move(gemm);
  }
  GemmShape Shape(int rows, int columns, int depth, bool accumulate = false) const {
    return {GetParam(), rows, columns, depth, accumulate};
  }
  std::string Path() const {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    std::string name = test->name();
    std::replace(name.begin(), name.end(), '/', '_');
    return testing::TempDir() + "gemm_table_" + name + std::to_string(getpid());
  }

  std::unique_ptr<Gemm> gemm_;
};

// Operands of one product. y has one more row, which must not be written.
struct Operands {
  Operands(const GemmShape& shape, uint32_t seed)
      : shape(shape),
        x_values(Rounded(shape.dtype, RandomFloats(size_t(shape.rows) * shape.depth, seed))),
        weight_values(
            Rounded(shape.dtype, RandomFloats(size_t(shape.columns) * shape.depth, seed + 1))),
        before(RandomFloats(size_t(shape.rows) * shape.columns, seed + 2)),
        x(shape.dtype, x_values),
        weight(shape.dtype, weight_values),
        y(Poisoned()) {}

  [[nodiscard]] std::vector<float> Poisoned() const {
    std::vector<float> values = before;
    values.insert(values.end(), shape.columns, kPoison);
    return values;
  }
  [[nodiscard]] GemmArgs args() const { return {shape, x.data(), weight.data(), y.data()}; }

  // Compares y with `times` times the product in double precision, plus the initial y if the shape
  // accumulates. Relative to the sum of absolute values, fp32 differs by about 1e-7; TF32 would
  // differ by 1e-5.
  void Check(int times = 1) const {
    const std::vector<float> actual = y.Read();
    for (int r = 0; r < shape.rows; ++r) {
      for (int n = 0; n < shape.columns; ++n) {
        const size_t at = size_t(r) * shape.columns + n;
        double sum = 0, magnitude = 0;
        for (int k = 0; k < shape.depth; ++k) {
          const double product = double{x_values[size_t(r) * shape.depth + k]} *
                                 weight_values[size_t(n) * shape.depth + k];
          sum += times * product;
          magnitude += times * std::abs(product);
        }
        if (shape.accumulate) {
          sum += before[at];
          magnitude += std::abs(before[at]);
        }
        ASSERT_NEAR(actual[at], sum, 1e-6 * magnitude) << "row " << r << ", column " << n;
      }
    }
    for (int n = 0; n < shape.columns; ++n) {
      ASSERT_EQ(actual[size_t(shape.rows) * shape.columns + n], kPoison)
          << "after the end of y, " << n;
    }
  }

  GemmShape shape;
  std::vector<float> x_values, weight_values, before;
  Typed x, weight;
  OnDevice<float> y;
};

TEST_P(GemmTest, AgreesWithDoublePrecision) {
  for (const bool accumulate : {false, true}) {
    for (const GemmShape& shape :
         {Shape(1, 64, 64, accumulate), Shape(1, 1000, 320, accumulate),
          Shape(3, 24, 512, accumulate), Shape(7, 129, 40, accumulate),
          Shape(16, 256, 128, accumulate), Shape(33, 72, 1032, accumulate)}) {
      SCOPED_TRACE(testing::Message() << shape.rows << " x " << shape.columns << " x "
                                      << shape.depth << (accumulate ? " accumulated" : ""));
      Operands operands(shape, 11);
      const void* weight = operands.weight.data();
      const absl::Status prepared = gemm_->Prepare(operands.args(), {&weight, 1}, *stream_);
      ASSERT_TRUE(prepared.ok()) << prepared;
      operands.y.Write(operands.Poisoned());
      gemm_->Run(operands.args(), *stream_);
      Finish();
      operands.Check();
    }
  }
}

TEST_P(GemmTest, OnePrepareServesManyWeights) {
  std::vector<std::unique_ptr<Operands>> layers;
  std::vector<const void*> weights;
  for (uint32_t layer = 0; layer < 3; ++layer) {
    layers.push_back(std::make_unique<Operands>(Shape(5, 96, 128), 20 + 3 * layer));
    weights.push_back(layers.back()->weight.data());
  }
  GemmArgs args = layers[0]->args();
  args.weight = nullptr;
  const absl::Status prepared = gemm_->Prepare(args, weights, *stream_);
  ASSERT_TRUE(prepared.ok()) << prepared;
  for (const auto& layer : layers) gemm_->Run(layer->args(), *stream_);
  Finish();
  for (const auto& layer : layers) layer->Check();
}

TEST_P(GemmTest, ReplaysAccumulateWithTheSameBits) {
  Operands operands(Shape(9, 160, 256, /*accumulate=*/true), 30);
  const void* weight = operands.weight.data();
  ASSERT_TRUE(gemm_->Prepare(operands.args(), {&weight, 1}, *stream_).ok());
  stream_->BeginRecording();
  gemm_->Run(operands.args(), *stream_);
  gemm_->Run(operands.args(), *stream_);
  auto graph = stream_->EndRecording();
  ASSERT_TRUE(graph.ok()) << graph.status();
  std::vector<float> first;
  for (int round = 0; round < 3; ++round) {
    operands.y.Write(operands.Poisoned());
    stream_->Run(**graph);
    stream_->Run(**graph);
    Finish();
    operands.Check(/*times=*/4);
    const std::vector<float> read = operands.y.Read();
    if (round == 0) first = read;
    EXPECT_TRUE(SameBits(read.data(), first.data(), read.size()));
  }
}

TEST_P(GemmTest, ALoadedTableNeedsNoPrepare) {
  const std::string path = Path();
  Operands operands(Shape(4, 64, 128), 40);
  const void* weight = operands.weight.data();
  ASSERT_TRUE(gemm_->Prepare(operands.args(), {&weight, 1}, *stream_).ok());
  ASSERT_TRUE(gemm_->Save(path).ok());
  const std::unique_ptr<Gemm> other = Make();
  const absl::Status loaded = other->Load(path);
  ASSERT_TRUE(loaded.ok()) << loaded;
  operands.y.Write(operands.Poisoned());
  other->Run(operands.args(), *stream_);
  Finish();
  operands.Check();
  ASSERT_TRUE(other->Save(path).ok());
  ASSERT_TRUE(Make()->Load(path).ok());
  unlink(path.c_str());
}

TEST_P(GemmTest, EntriesForOtherDevicesAreKeptButNotUsed) {
  const std::string path = Path();
  Operands operands(Shape(4, 64, 128), 50);
  const void* weight = operands.weight.data();
  ASSERT_TRUE(gemm_->Prepare(operands.args(), {&weight, 1}, *stream_).ok());
  ASSERT_TRUE(gemm_->Save(path).ok());
  std::ifstream file(path);
  std::string head, line, again;
  std::getline(file, head);
  std::getline(file, line);
  const std::string theirs = "Another GPU" + line.substr(line.find('\t'));
  std::ofstream(path) << head << '\n' << theirs << '\n';
  const std::unique_ptr<Gemm> other = Make();
  ASSERT_TRUE(other->Load(path).ok());
  EXPECT_DEATH(other->Run(operands.args(), *stream_), "call Gemm::Prepare");
  ASSERT_TRUE(other->Save(path).ok());
  std::ifstream saved(path);
  std::getline(saved, again);
  std::getline(saved, again);
  EXPECT_EQ(again, theirs);
  unlink(path.c_str());
}

TEST_P(GemmTest, ADamagedFileIsReportedAndNotUsed) {
  const std::string path = Path();
  EXPECT_TRUE(gemm_->Load(path).ok()) << "without a file";
  Operands operands(Shape(4, 64, 128), 60);
  const void* weight = operands.weight.data();
  ASSERT_TRUE(gemm_->Prepare(operands.args(), {&weight, 1}, *stream_).ok());
  ASSERT_TRUE(gemm_->Save(path).ok());
  std::ofstream(path, std::ios::app) << "and so on\n";
  const std::unique_ptr<Gemm> other = Make();
  const absl::Status status = other->Load(path);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path + ":3:"));
  EXPECT_DEATH(other->Run(operands.args(), *stream_), "call Gemm::Prepare");
  unlink(path.c_str());
}

TEST_P(GemmTest, RefusesATypeWithoutProducts) {
  Operands operands(Shape(4, 64, 128), 70);
  GemmArgs args = operands.args();
  args.shape.dtype = DType::kF16;
  const void* weight = operands.weight.data();
  const absl::Status status = gemm_->Prepare(args, {&weight, 1}, *stream_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
}

INSTANTIATE_TEST_SUITE_P(Types, GemmTest, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& type) { return Name(type.param); });

}  // namespace
}  // namespace bastion::kernels::cuda
