// RandomExperts: a Qwen3-MoE checkpoint with random weights, large enough that the experts that a
// forward touches show in its time. Deterministic.
#ifndef BASTION_TESTS_SUPPORT_RANDOM_EXPERTS_H_
#define BASTION_TESTS_SUPPORT_RANDOM_EXPERTS_H_

#include <string>

#include "tests/support/temp_folder.h"

namespace bastion::testing {

struct RandomExpertsSize {
  int experts = 0;  // E
  int chosen = 0;   // Experts of a row.
  int hidden = 0;   // C, and the inner size of an expert. A multiple of 64.
};

class RandomExperts {
 public:
  // Two layers, and a vocabulary of 512. Ends the process if the files cannot be written.
  explicit RandomExperts(const RandomExpertsSize& size);

  [[nodiscard]] const std::string& folder() const { return folder_.path(); }

 private:
  TempFolder folder_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_RANDOM_EXPERTS_H_
