// Applies the requests' edits to individual logits, and undoes them.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kThreads = 128;

SIMT_DEVICE float* LogitOf(const EditArgs& args, const LogitEdit& edit) {
  return args.logits + static_cast<int64_t>(edit.row) * args.vocabulary + edit.token;
}

// Each operation rounds as on the host (verifier_service/verify/logit_edits.cc). Multiply() keeps
// the compiler from fusing a product with a sum.
SIMT_KERNEL(kThreads, 1)
void EditKernel(EditArgs args) {
  BeginKernel();
  const int i = Block().x * kThreads + ThreadIndex();
  if (i >= args.count) return;
  const LogitEdit edit = args.edits[i];
  float* logit = LogitOf(args, edit);
  args.before[i] = *logit;
  float value = *logit + edit.bias;
  value = value > 0 ? value / edit.penalty : Multiply(value, edit.penalty);
  *logit = value - edit.frequency - edit.presence;
}

SIMT_KERNEL(kThreads, 1)
void UndoKernel(EditArgs args) {
  BeginKernel();
  const int i = Block().x * kThreads + ThreadIndex();
  if (i < args.count) *LogitOf(args, args.edits[i]) = args.before[i];
}

LaunchShape ShapeFor(int count) { return {{(count + kThreads - 1) / kThreads}, kThreads}; }

}  // namespace

void EditLogits(const EditArgs& args, Stream& stream) {
  Launch(stream, EditKernel, ShapeFor(args.count), args);
}

void UndoEdits(const EditArgs& args, Stream& stream) {
  Launch(stream, UndoKernel, ShapeFor(args.count), args);
}

}  // namespace bastion::kernels::cuda
