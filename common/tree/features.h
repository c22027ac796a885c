// Features: the target's hidden states that a drafter reads, for the committed tokens of one
// sequence. Plain data: rows of F values (the outputs of the wanted layers side by side), fp32 or
// bf16, in the byte order of the machine (little-endian everywhere this runs).
#ifndef BASTION_COMMON_TREE_FEATURES_H_
#define BASTION_COMMON_TREE_FEATURES_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/ids.h"

namespace bastion {

enum class FeatureType { kF32, kBF16 };

struct Features {
  int width = 0;  // F
  FeatureType type = FeatureType::kF32;
  std::string bytes;  // [rows, F]
  // The token after the last row once the target has chosen it, which a verify does and a prefill
  // does not: the root of the next draft.
  TokenId next = kNoToken;

  [[nodiscard]] size_t row_bytes() const {
    return static_cast<size_t>(width) * (type == FeatureType::kF32 ? 4 : 2);
  }
  [[nodiscard]] int rows() const {
    return width == 0 ? 0 : static_cast<int>(bytes.size() / row_bytes());
  }
};

// Which rows: tokens [first, first + count) of a sequence.
struct FeatureRange {
  SequenceId sequence;
  Position first = 0;
  int count = 0;
};

// Where a drafter gets features from: the verifier in the same process, or its stream.
class FeatureSource {
 public:
  virtual ~FeatureSource() = default;
  // Exactly `range.count` rows. NOT_FOUND: unknown sequence; OUT_OF_RANGE: not there any more;
  // DEADLINE_EXCEEDED: not there yet.
  [[nodiscard]] virtual absl::StatusOr<Features> Read(const FeatureRange& range,
                                                      absl::Duration patience) = 0;
};

}  // namespace bastion

#endif  // BASTION_COMMON_TREE_FEATURES_H_
