#include "kernels/cuda/product/expert_product.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/cuda/ops.h"
#include "kernels/cuda/product/product.h"
#include "tests/kernels/cuda/device_test_support.h"
#include "tests/kernels/cuda/product/test_weights.h"

namespace bastion::kernels::cuda {
namespace {

constexpr float kUnwritten = 12345.0f;

// The rows of each expert, as Route groups them.
struct Routing {
  std::vector<int32_t> sources;   // [places]
  std::vector<ExpertRows> tiles;  // At least one.
  int tile_count = 0;

  Routing(const std::vector<std::vector<int>>& rows_of_experts) {
    for (size_t expert = 0; expert < rows_of_experts.size(); ++expert) {
      const std::vector<int>& rows = rows_of_experts[expert];
      for (size_t done = 0; done < rows.size(); done += kMaxExpertRows) {
        const auto count = std::min<size_t>(rows.size() - done, kMaxExpertRows);
        tiles.push_back({static_cast<int32_t>(expert), static_cast<int32_t>(sources.size()),
                         static_cast<int32_t>(count), 0});
        for (size_t i = 0; i < count; ++i) sources.push_back(rows[done + i]);
      }
    }
    tile_count = static_cast<int>(tiles.size());
    if (tiles.empty()) tiles.resize(1);
  }
  [[nodiscard]] int places() const { return static_cast<int>(sources.size()); }
};

struct ExpertShape {
  int experts, rows, columns, depth;
};

// The matrices of some experts, and rows to multiply by them.
class TestExperts {
 public:
  TestExperts(WeightFormat format, const ExpertShape& shape)
      : columns_(shape.columns),
        depth_(shape.depth),
        x_(ToBf16(RandomFloats(size_t(shape.rows) * depth_, 1))),
        weights_(WeightsIn(format, RandomFloats(size_t(shape.experts) * columns_ * depth_, 2),
                           columns_, depth_)),
        x_on_device_(x_),
        weights_on_device_(weights_.memory) {}

  [[nodiscard]] ExpertProductArgs Args() const {
    ExpertProductArgs args;
    args.x = x_on_device_.data();
    args.weight = weights_on_device_.data();
    args.int8 = weights_.format == WeightFormat::kInt8;
    args.tile_capacity = 8;
    args.chosen = 2;
    args.columns = columns_;
    args.depth = depth_;
    return args;
  }
  // y [places, columns]; without sources, place p has row p.
  std::vector<float> Run(const Routing& routing, const ExpertPlan& plan, Stream& stream,
                         bool gather = true) const {
    const OnDevice<float> y(size_t(routing.places() + 1) * columns_, kUnwritten);
    ExpertProductArgs args = Args();
    args.y = y.data();
    Launch(args, routing, plan, stream, gather);
    std::vector<float> all = y.Read();
    for (int n = 0; n < columns_; ++n) {
      EXPECT_EQ(all[size_t(routing.places()) * columns_ + n], kUnwritten);
    }
    all.resize(size_t(routing.places()) * columns_);
    return all;
  }
  // The activation [places, columns / 2].
  std::vector<uint16_t> RunGated(const Routing& routing, const ExpertPlan& plan,
                                 Stream& stream) const {
    const OnDevice<uint16_t> activation(size_t(routing.places()) * columns_ / 2);
    ExpertProductArgs args = Args();
    args.activation = activation.data();
    Launch(args, routing, plan, stream, true);
    return activation.Read();
  }

  // Compares y with the product in double precision.
  void Check(const std::vector<float>& y, const Routing& routing, bool gather = true) const {
    for (const ExpertRows& tile : routing.tiles) {
      for (int i = 0; i < tile.count * columns_; ++i) {
        const int place = tile.first + i / columns_, n = i % columns_;
        const size_t row = gather ? routing.sources[place] : place;
        const size_t column = size_t(tile.expert) * columns_ + n;
        double sum = 0, magnitude = 0;
        for (int k = 0; k < depth_; ++k) {
          const double product =
              double{Bf16ToFloat(x_[row * depth_ + k])} * weights_.values[column * depth_ + k];
          sum += product;
          magnitude += std::abs(product);
        }
        ASSERT_NEAR(y[size_t(place) * columns_ + n], sum, 1e-6 * magnitude)
            << "place " << place << ", column " << n;
      }
    }
  }

 private:
  static void Launch(ExpertProductArgs args, const Routing& routing, const ExpertPlan& plan,
                     Stream& stream, bool gather) {
    const OnDevice<int32_t> sources(routing.sources.empty() ? std::vector<int32_t>(1)
                                                            : routing.sources);
    const OnDevice<ExpertRows> tiles(routing.tiles);
    const OnDevice<int32_t> count(1, routing.tile_count);
    args.sources = gather ? sources.data() : nullptr;
    args.tiles = tiles.data();
    args.tile_count = count.data();
    ExpertProduct(args, plan, stream);
    EXPECT_TRUE(stream.Synchronize().ok());
  }

  const int columns_, depth_;
  const std::vector<uint16_t> x_;
  const TestWeights weights_;
  const OnDevice<uint16_t> x_on_device_;
  const OnDevice<char> weights_on_device_;
};

// Plans with every tile. Some leave most of a tile empty.
std::vector<ExpertPlan> AllExpertPlans() {
  std::vector<ExpertPlan> plans;
  for (const int columns : {64, 96, 128}) {
    for (const auto& [stages, blocks] : {std::pair{2, 1}, {3, 5}, {8, 2}}) {
      plans.push_back({columns, stages, blocks, size_t(stages) * (columns + kMaxExpertRows) * 128});
    }
  }
  return plans;
}

// `count` rows, `first` and those after it.
std::vector<int> RowsFrom(int first, int count) {
  std::vector<int> rows(count);
  for (int i = 0; i < count; ++i) rows[i] = first + i;
  return rows;
}

// One format of weights.
class ExpertProductTest : public DeviceTest, public ::testing::WithParamInterface<WeightFormat> {};

TEST_P(ExpertProductTest, MultipliesTheRowsOfEachExpertByItsMatrix) {
  const Routing routing({{5}, {}, {0, 2, 9}, RowsFrom(0, 11), {}, RowsFrom(1, 20), {3}});
  for (const auto& [columns, depth] : {std::pair{1, 8}, {37, 72}, {136, 64}, {200, 640}}) {
    const TestExperts experts(GetParam(), {7, routing.places(), columns, depth});
    const ExpertPlan plan = PlanExperts(experts.Args(), device_);
    for (const bool gather : {false, true}) {
      experts.Check(experts.Run(routing, plan, *stream_, gather), routing, gather);
    }
  }
}

TEST_P(ExpertProductTest, OneExpertMayHaveAllRows) {
  const Routing routing({{}, {}, RowsFrom(0, 150)});
  const TestExperts experts(GetParam(), {4, 150, 24, 136});
  experts.Check(experts.Run(routing, PlanExperts(experts.Args(), device_), *stream_), routing);
}

TEST_P(ExpertProductTest, WithoutRowsNothingIsMultiplied) {
  const TestExperts experts(GetParam(), {4, 3, 24, 64});
  const Routing routing({{}, {}, {}, {}});
  EXPECT_TRUE(experts.Run(routing, PlanExperts(experts.Args(), device_), *stream_).empty());
}

TEST_P(ExpertProductTest, EveryPlanGivesTheSameBits) {
  const Routing routing({{1}, RowsFrom(0, 9), RowsFrom(0, 70), {}, {4, 2}});
  const TestExperts experts(GetParam(), {5, 70, 200, 144});
  std::vector<float> first;
  for (const ExpertPlan& plan : AllExpertPlans()) {
    const std::vector<float> y = experts.Run(routing, plan, *stream_);
    if (first.empty()) first = y;
    ASSERT_TRUE(SameBits(y.data(), first.data(), y.size()))
        << plan.tile_columns << " columns, " << plan.stages << " stages";
  }
}

// Row 0 chooses experts 1 and 3. The other rows are routed in several ways.
TEST_P(ExpertProductTest, ARowHasTheSameBitsBesideAnyOtherRows) {
  const int columns = 104, depth = 264;
  const TestExperts experts(GetParam(), {4, 128, columns, depth});
  const ExpertPlan plan = PlanExperts(experts.Args(), device_);
  const std::vector<float> alone = experts.Run(Routing({{}, {0}, {}, {0}}), plan, *stream_);
  for (const int rows : {2, 7, 9, 17, 33, 64, 65, 128}) {
    const std::vector<int> others = RowsFrom(1, rows - 1);
    std::vector<int> last = others, middle = others;
    last.push_back(0);
    middle.insert(middle.begin() + static_cast<int>(others.size()) / 2, 0);
    for (const Routing& routing :
         {Routing({others, last, {}, {0}}), Routing({{}, middle, {}, last}),
          Routing({others, {0}, others, middle})}) {
      const std::vector<float> y = experts.Run(routing, plan, *stream_);
      int found = 0;
      for (const ExpertRows& tile : routing.tiles) {
        for (int place = tile.first; place < tile.first + tile.count; ++place) {
          if (routing.sources[place] != 0) continue;
          ++found;
          const float* const expected = &alone[tile.expert == 1 ? 0 : columns];
          EXPECT_TRUE(SameBits(&y[size_t(place) * columns], expected, columns))
              << rows << " rows, expert " << tile.expert;
        }
      }
      EXPECT_EQ(found, 2);
    }
  }
}

TEST_P(ExpertProductTest, AGatedProductEqualsTheProductAndThenTheActivation) {
  const Routing routing({{3}, RowsFrom(0, 12), {}, RowsFrom(0, 80)});
  for (const int width : {8, 88, 152}) {
    const TestExperts experts(GetParam(), {4, 80, 2 * width, 72});
    const std::vector<ExpertPlan> plans = AllExpertPlans();
    const OnDevice<float> y(experts.Run(routing, plans[0], *stream_));
    const OnDevice<uint16_t> expected(size_t(routing.places()) * width);
    SiluMul({y.data(), expected.data(), DType::kBF16, routing.places(), width}, *stream_);
    Finish();
    for (const ExpertPlan& plan : plans) {
      EXPECT_EQ(experts.RunGated(routing, plan, *stream_), expected.Read())
          << width << " in tiles of " << plan.tile_columns;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, ExpertProductTest,
                         ::testing::Values(WeightFormat::kBF16, WeightFormat::kInt8),
                         [](const auto& info) { return std::string(Name(info.param)); });

// The shapes of Qwen3-30B-A3B on an H200.
TEST(ExpertPlanTest, OneTokenFillsTheGpu) {
  DeviceInfo device;
  device.multiprocessors = 132;
  device.shared_bytes = 227 * 1024;
  uint16_t activation;
  ExpertProductArgs args;
  args.tile_capacity = MaxExpertTiles(1, 8, 128);
  args.chosen = 8;
  args.columns = 1536;
  args.depth = 2048;
  args.activation = &activation;
  const ExpertPlan up = PlanExperts(args, device);
  EXPECT_EQ(up.tile_columns, 96);
  EXPECT_EQ(up.blocks, 128);
  args.columns = 2048;
  args.depth = 768;
  args.activation = nullptr;
  const ExpertPlan down = PlanExperts(args, device);
  EXPECT_EQ(down.tile_columns, 128);
  EXPECT_EQ(down.blocks, 128);
  for (const ExpertPlan& plan : {up, down}) {
    EXPECT_LE(plan.shared, device.shared_bytes);
    EXPECT_GT(2 * plan.shared + 2048, device.shared_bytes + 1024);
  }
}

}  // namespace
}  // namespace bastion::kernels::cuda
