// DrafterShape: the sizes of a new drafter. Plain data; a value of 0 or an empty list means the
// default of its kind.
#ifndef BASTION_TOOLS_TRAIN_MODELS_DRAFTER_SHAPE_H_
#define BASTION_TOOLS_TRAIN_MODELS_DRAFTER_SHAPE_H_

#include <cstdint>
#include <vector>

#include "common/base/ids.h"

namespace bastion::train {

struct DrafterShape {
  int layers = 0;
  int hidden = 0;        // Width of the residual stream, if it may differ from the target's.
  int intermediate = 0;  // Width of the feed-forward layers.
  int block = 0;         // Tokens of one draft forward, the root included.
  std::vector<int> feature_layers = {};  // Layers of the target whose outputs it reads.
  TokenId mask_token = kNoToken;         // kNoToken: the default.
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_DRAFTER_SHAPE_H_
