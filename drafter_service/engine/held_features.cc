#include "drafter_service/engine/held_features.h"

#include <utility>

#include "common/base/check.h"

namespace bastion::drafter {

void HeldFeatures::KeepFrom(Position row) {
  if (row < first_ || row >= end()) {
    features_ = {};
  } else {
    features_.bytes.erase(0, (row - first_) * features_.row_bytes());
  }
  first_ = row;
}

absl::Status HeldFeatures::Append(Features features) {
  if (features.on_device()) {
    return absl::InvalidArgumentError("this drafter reads features as bytes only");
  }
  if (features_.rows() == 0) {
    features_ = std::move(features);
    return absl::OkStatus();
  }
  if (features.width != features_.width || features.type != features_.type) {
    return absl::InvalidArgumentError("the features of a sequence changed their width or type");
  }
  features_.bytes += features.bytes;
  return absl::OkStatus();
}

Features HeldFeatures::Rows(Position first, int count) const {
  CHECK(first >= first_ && first + count <= end());
  Features rows;
  rows.width = features_.width;
  rows.type = features_.type;
  rows.bytes = features_.bytes.substr((first - first_) * features_.row_bytes(),
                                      count * features_.row_bytes());
  return rows;
}

}  // namespace bastion::drafter
