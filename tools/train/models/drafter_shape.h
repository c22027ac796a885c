// DrafterShape: the sizes of a new drafter. Plain data; a value of 0 or an empty list means the
// default of its kind.
#ifndef BASTION_TOOLS_TRAIN_MODELS_DRAFTER_SHAPE_H_
#define BASTION_TOOLS_TRAIN_MODELS_DRAFTER_SHAPE_H_

#include <cstdint>
#include <vector>

#include "common/base/ids.h"

namespace bastion::train {

// How a SpecBlock drafter learns (block_loss.h).
struct BlockLearning {
  int blocks = 2;              // M: blocks after each anchor.
  double position_decay = 1;   // Position k of a block counts this to the power of k - 1.
  bool prefix_mask = true;     // A position counts while the positions before it are right.
  bool carries_mask = false;   // A later block counts if its start does. False: always.
  bool ordinal_ranks = false;  // The rank head learns as in the authors' code, not the paper.
  int64_t rank_steps = -1;     // Steps before the rank head learns. -1: a tenth of the run.
};

// The sizes of a SpecBlock drafter that no other kind has.
struct SpecBlockShape {
  bool path_positions = false;  // A later block's positions also count the tokens before its start.
  bool shift = true;            // A row also reads the row before it. False: for ablations.
  bool prefix_broadcast =
      true;  // All rows of a token read its condition and embedding. False: for ablations.
  BlockLearning learning = {};
};

// The selector of a DFlash 2 drafter and how it learns (pair_training.h).
struct SelectorLearning {
  int rank = 0;       // r: factors of a pair score.
  double weight = 0;  // Weight of its loss in the gradients of the other parameters.
};

struct DrafterShape {
  int layers = 0;
  int hidden = 0;        // Width of the residual stream, if it may differ from the target's.
  int intermediate = 0;  // Width of the feed-forward layers.
  int block = 0;         // Tokens of one draft forward, the root included.
  std::vector<int> feature_layers = {};  // Layers of the target whose outputs it reads.
  TokenId mask_token = kNoToken;         // kNoToken: the default.
  int draft_steps = 0;                   // Tokens of a chain, if one forward drafts one token.
  // The tokens that it can predict, ascending. Empty: all.
  std::vector<TokenId> draft_tokens = {};
  // Tokens that one forward predicts, if it needs no other size. SpecBlock: those of a block.
  int positions = 0;
  SpecBlockShape specblock = {};
  SelectorLearning selector = {};
};

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_MODELS_DRAFTER_SHAPE_H_
