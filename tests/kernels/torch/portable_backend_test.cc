#include "kernels/torch/portable_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bastion::kernels {
namespace {

using ::testing::HasSubstr;

TEST(PortableBackendTest, ReturnsTheBackendOrSaysHowToBuildIt) {
  const absl::StatusOr<const Backend*> backend = PortableBackend();
  if (BASTION_HAS_TORCH) {
    ASSERT_TRUE(backend.ok()) << backend.status();
    EXPECT_THAT((*backend)->describe(), HasSubstr("libtorch 2."));
  } else {
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(backend.status().message()), HasSubstr("deploy/local/build.sh torch"));
  }
}

}  // namespace
}  // namespace bastion::kernels
