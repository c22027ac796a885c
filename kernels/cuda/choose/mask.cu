// Excludes the tokens that a constraint does not allow.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kThreads = 256;

// A warp handles one word of a set, and each lane one token.
SIMT_KERNEL(kThreads, 1)
void MaskKernel(MaskArgs args) {
  BeginKernel();
  const int words = (args.vocabulary + kWarp - 1) / kWarp;
  const int word = Block().x * BlockWarps() + Warp();
  const int token = word * kWarp + Lane();
  if (token >= args.vocabulary) return;
  const MaskedRow masked = args.rows[Block().y];
  const uint32_t set = args.sets[static_cast<int64_t>(masked.set) * words + word];
  if ((set >> Lane() & 1u) != 0) return;
  args.logits[static_cast<int64_t>(masked.row) * args.vocabulary + token] = -Infinity();
}

}  // namespace

void MaskLogits(const MaskArgs& args, Stream& stream) {
  const int blocks = (args.vocabulary + kThreads - 1) / kThreads;
  Launch(stream, MaskKernel, {{blocks, args.count}, kThreads}, args);
}

}  // namespace bastion::kernels::cuda
