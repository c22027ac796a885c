#include "orchestrator/cost/roofline.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/orchestrator/cost/tiny_model.h"

namespace bastion {
namespace {

using ::bastion::testing::TinyDims;
using ::bastion::testing::TinyRoofline;
using ::testing::HasSubstr;

// FLOPs of s = 3 rows over c = 7 cached tokens, term by term (symbols: roofline.h):
//   4·s·h·h_q      = 4·3·4·6    = 288
//   4·s·h·h_kv     = 4·3·4·3    = 144
//   4·s·(c+s)·h_q  = 4·3·10·6   = 720
//   6·s·h·h_ffn    = 6·3·4·5    = 360       per layer: 1512, two layers: 3024
//   2·s·h·V        = 2·3·4·10   = 240       total: 3264
TEST(RooflineTest, FlopsMatchAHandComputation) {
  EXPECT_DOUBLE_EQ(TinyRoofline().Flops(3, 7), 3264);
}

// Bytes of the same forward, in elements:
//   2·V·h                = 2·10·4     = 80
//   s(h+V)               = 3·14       = 42
//   2h(h_q+h_kv)         = 2·4·9      = 72
//   3·h·h_ffn            = 3·4·5      = 60
//   2·h_kv(c+2s)         = 2·3·13     = 78
//   4s(h+h_q+h_ffn)      = 4·3·15     = 180
//   2·n_q·s(c+s)         = 2·2·3·10   = 120  per layer: 510, two layers: 1020
//   80 + 42 + 1020 = 1142 elements of 2 bytes: 2284
TEST(RooflineTest, BytesMatchAHandComputation) {
  EXPECT_DOUBLE_EQ(TinyRoofline().Bytes(3, 7), 2284);
}

// One row, no cached tokens: 2(96 + 48 + 24 + 120) + 80 = 656 FLOPs, and
// 2·[80 + 14 + 2(72 + 60 + 12 + 60 + 4)] = 1020 bytes.
TEST(RooflineTest, CountsOneRowWithoutContext) {
  EXPECT_DOUBLE_EQ(TinyRoofline().Flops(1, 0), 656);
  EXPECT_DOUBLE_EQ(TinyRoofline().Bytes(1, 0), 1020);
}

// The same forward with weights of one byte. The weights have 80 + 2(72 + 60) = 344 elements, all
// else 1142 − 344 = 798: 1·344 + 2·798 bytes.
TEST(RooflineTest, KeysAndActivationsOfAnInt8TargetAreNotInt8) {
  ModelDims dims = TinyDims();
  dims.bytes_per_weight = 1;
  dims.state_bytes_per_element = 2;
  EXPECT_DOUBLE_EQ(Roofline::Make(dims, {1, 1})->Bytes(3, 7), 1940);
}

// With half a byte per weight: 344/2 + 2·798.
TEST(RooflineTest, AWeightMayHaveAFractionOfAByte) {
  ModelDims dims = TinyDims();
  dims.bytes_per_weight = 0.5;
  dims.state_bytes_per_element = 2;
  EXPECT_DOUBLE_EQ(Roofline::Make(dims, {1, 1})->Bytes(3, 7), 1768);
  dims.bytes_per_weight = 0;
  EXPECT_TRUE(absl::IsInvalidArgument(Roofline::Make(dims, {1, 1}).status()));
}

// An MLP of two matrices, as in GPT-NeoX: 4·s·h·h_ffn = 240 FLOPs instead of 360 and
// 2·h·h_ffn = 40 elements instead of 60, in each of two layers.
TEST(RooflineTest, CountsTheMatricesOfTheFamily) {
  ModelDims dims = TinyDims();
  dims.mlp.matrices = 2;
  const absl::StatusOr<Roofline> roofline = Roofline::Make(dims, {1, 1});
  EXPECT_DOUBLE_EQ(roofline->Flops(3, 7), 3264 - 2 * 120);
  EXPECT_DOUBLE_EQ(roofline->Bytes(3, 7), 2284 - 2 * 2 * 20);
}

// One of the two layers has k = 1 of E = 2 experts of width h_e = 3.
//   6·s·k·h·h_e = 6·3·1·4·3 = 216, 2·s·h·E = 2·3·4·2 = 48: 264 FLOPs instead of 360.
//   Three rows choose 2(1 − (1/2)³) = 1.75 experts: h·E + 3·h·h_e·1.75 = 8 + 63 = 71 elements of
//   weights instead of 60. 4·s·k·h_e = 36 elements of activations instead of 4·s·h_ffn = 60.
TEST(RooflineTest, CountsTheExpertsThatTheRowsTouch) {
  ModelDims dims = TinyDims();
  dims.mlp = {.expert_layers = 1, .experts = 2, .chosen = 1, .expert_intermediate = 3};
  const absl::StatusOr<Roofline> roofline = Roofline::Make(dims, {1, 1});
  EXPECT_DOUBLE_EQ(roofline->Flops(3, 7), 3264 - 360 + 264);
  EXPECT_DOUBLE_EQ(roofline->Bytes(3, 7), 2284 + 2 * (71 - 60) - 2 * (60 - 36));
}

TEST(RooflineTest, RefusesExpertsThatMakeNoModel) {
  for (const MlpDims& mlp :
       {MlpDims{.matrices = 0}, MlpDims{.expert_layers = 3},
        MlpDims{.expert_layers = 1, .experts = 2, .chosen = 3, .expert_intermediate = 1}}) {
    ModelDims dims = TinyDims();
    dims.mlp = mlp;
    EXPECT_THAT(Roofline::Make(dims, {1, 1}).status().message(), HasSubstr("make no model"));
  }
}

TEST(RooflineTest, SecondsIsTheLargerOfMemoryAndComputeTime) {
  // The forward has 3264 FLOPs and 2284 bytes.
  EXPECT_DOUBLE_EQ(TinyRoofline().Seconds(3, 7), 2284.0 / 1000);
  const absl::StatusOr<Roofline> compute_bound =
      Roofline::Make(TinyDims(), {.bytes_per_second = 1000, .flops_per_second = 1000});
  ASSERT_TRUE(compute_bound.ok());
  EXPECT_DOUBLE_EQ(compute_bound->Seconds(3, 7), 3264.0 / 1000);
}

TEST(RooflineTest, DoesNotOverflowForALargeModel) {
  // Qwen3-8B: 36 layers, 151936 tokens. The weights alone have 2·(36·(2·4096·5120 + 3·4096·12288) +
  // 2·151936·4096) bytes = 16.38 GB.
  const ModelDims dims = {36, 4096, 32, 8, 128, 12288, 151936, 2};
  const Roofline roofline =
      *Roofline::Make(dims, {.bytes_per_second = 2e12, .flops_per_second = 3e14});
  EXPECT_NEAR(roofline.Bytes(1, 0), 16.38e9, 0.01e9);
  EXPECT_GT(roofline.Flops(1025, 32768), 1e13);
}

TEST(RooflineTest, RefusesDimsThatAreNotPositive) {
  ModelDims dims = TinyDims();
  dims.kv_heads = 0;
  const DevicePeaks peaks = {1, 1};
  EXPECT_THAT(Roofline::Make(dims, peaks).status().message(), HasSubstr("every dim"));
}

TEST(RooflineTest, RefusesPeaksThatAreNotPositive) {
  EXPECT_THAT(Roofline::Make(TinyDims(), {0, 1}).status().message(), HasSubstr("peaks"));
  EXPECT_THAT(Roofline::Make(TinyDims(), {1, -1}).status().message(), HasSubstr("peaks"));
}

}  // namespace
}  // namespace bastion
