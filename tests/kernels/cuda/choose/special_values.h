// Logits that are not finite.
#ifndef BASTION_TESTS_KERNELS_CUDA_CHOOSE_SPECIAL_VALUES_H_
#define BASTION_TESTS_KERNELS_CUDA_CHOOSE_SPECIAL_VALUES_H_

#include <limits>

namespace bastion {

inline constexpr float kMasked = -std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

}  // namespace bastion

#endif  // BASTION_TESTS_KERNELS_CUDA_CHOOSE_SPECIAL_VALUES_H_
