#include "tools/train/models/products.h"

#include "gtest/gtest.h"

namespace bastion::train {
namespace {

at::Tensor Rounded(const at::Tensor& values) { return values.to(at::kBFloat16).to(at::kFloat); }

// Whether all values agree up to the rounding of results to bf16.
bool AgreeInBf16(const at::Tensor& one, const at::Tensor& other) {
  return one.scalar_type() == at::kFloat && at::allclose(one, other, 1.0 / 128, 1e-5);
}

class ProductsTest : public ::testing::Test {
 protected:
  ProductsTest() {
    at::manual_seed(1);
    rows_ = at::randn({5, 24});
    matrix_ = at::randn({7, 24}).requires_grad_();
  }
  // The gradient of the matrix if all elements of the product count alike.
  at::Tensor Gradient() {
    matrix_.mutable_grad().reset();
    Product(rows_, matrix_).sum().backward();
    return matrix_.grad();
  }

  at::Tensor rows_, matrix_;
};

TEST_F(ProductsTest, AreFp32ByDefault) {
  EXPECT_EQ(ProductType(), at::kFloat);
  EXPECT_TRUE(at::equal(Product(rows_, matrix_), at::linear(rows_, matrix_)));
  EXPECT_TRUE(at::equal(BatchProduct(rows_, matrix_.t()), at::matmul(rows_, matrix_.t())));
}

TEST_F(ProductsTest, InBf16OperandsAndResultsAreRounded) {
  const at::Tensor expected = at::linear(Rounded(rows_), Rounded(matrix_));
  const Bf16Products bf16(true);
  EXPECT_EQ(ProductType(), at::kBFloat16);
  EXPECT_TRUE(AgreeInBf16(Product(rows_, matrix_), expected));
  EXPECT_TRUE(AgreeInBf16(BatchProduct(rows_, matrix_.t()), expected));
  EXPECT_FALSE(at::equal(Product(rows_, matrix_), expected)) << "results are rounded, too";
}

TEST_F(ProductsTest, GradientsOfBf16ProductsAreFp32) {
  const at::Tensor exact = Gradient().clone();
  const Bf16Products bf16(true);
  EXPECT_TRUE(AgreeInBf16(Gradient(), Rounded(rows_).sum(0).expand({7, 24})));
  EXPECT_TRUE(at::allclose(Gradient(), exact, 0.05, 0.05));
}

TEST_F(ProductsTest, TheTypeBeforeReturns) {
  {
    const Bf16Products bf16(true);
    {
      const Bf16Products fp32(false);
      EXPECT_EQ(ProductType(), at::kFloat);
    }
    EXPECT_EQ(ProductType(), at::kBFloat16);
  }
  EXPECT_EQ(ProductType(), at::kFloat);
}

}  // namespace
}  // namespace bastion::train
