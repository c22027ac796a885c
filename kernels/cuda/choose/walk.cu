// Walks each span's tree along the choices (verifier_service/verify/accept.h), with one warp per
// span.
#include "kernels/cuda/ops.h"
#include "kernels/cuda/simt/simt.h"

namespace bastion::kernels::cuda {
namespace {

using namespace simt;

constexpr int kThreads = 1024;  // One block: up to 32 spans are walked at once.

// Stores an accepted node for the device and, if the caller asks for it, for the host.
SIMT_DEVICE void Keep(const WalkArgs& args, int at, int32_t node) {
  args.paths[at] = node;
  if (args.paths_for_host != nullptr) args.paths_for_host[at] = node;
}

// Parents precede their children, so one pass over the rows finds the whole path. The warp checks
// 32 rows at a time, one per lane. When it accepts a row, it checks the same 32 rows again for a
// child of that row. All lanes get the result.
SIMT_DEVICE WalkResult WalkSpan(const WalkArgs& args, int span) {
  const int begin = args.rows.first_rows[span], rows = args.rows.first_rows[span + 1] - begin;
  WalkResult result;
  result.next = args.choices[begin];
  int at = 0;
  for (int first = 0; first < rows; first += kWarp) {
    const int row = first + Lane();
    const bool in_use = row < rows;
    const int token = in_use ? args.rows.tokens[begin + row] : 0;
    const int parent = in_use ? args.rows.parents[begin + row] : -1;  // −1: not a child of any row.
    const int choice = in_use ? args.choices[begin + row] : 0;
    if (Ballot(choice < 0) != 0) {
      result.path_length = result.next = -1;
      return result;
    }
    for (;;) {
      const uint32_t accepted = Ballot(parent == at && row > at && token == result.next);
      if (accepted == 0) break;
      at = first + LowestBit(accepted);
      result.next = Shuffle(choice, at - first);
      if (Lane() == 0) Keep(args, begin + result.path_length, at);
      ++result.path_length;
    }
  }
  return result;
}

// One warp computes first_kept of every span: a running sum over the spans, 32 at a time.
SIMT_DEVICE void PlaceSpans(const WalkArgs& args, int spans) {
  int kept = 0;  // Rows that all spans before `first` keep.
  for (int first = 0; first < spans; first += kWarp) {
    const int span = first + Lane();
    WalkResult result;
    if (span < spans) result = args.results[span];
    const int mine = span < spans ? result.path_length + 1 : 0;  // 0 if path_length is −1.
    int through = mine;
    SIMT_UNROLL
    for (int step = 1; step < kWarp; step *= 2) {
      const int before = Shuffle(through, Lane() - step);
      if (Lane() >= step) through += before;
    }
    result.first_kept = kept + through - mine;
    kept += Shuffle(through, kWarp - 1);
    if (span >= spans) continue;
    args.results[span] = result;
    if (args.results_for_host != nullptr) args.results_for_host[span] = result;
  }
}

SIMT_KERNEL(kThreads, 1)
void WalkKernel(WalkArgs args) {
  BeginKernel();
  const int spans = args.rows.used[1];
  for (int span = Warp(); span < spans; span += BlockWarps()) {
    const WalkResult result = WalkSpan(args, span);
    if (Lane() == 0) args.results[span] = result;
  }
  SyncBlock();
  if (Warp() == 0) PlaceSpans(args, spans);
}

}  // namespace

void Walk(const WalkArgs& args, Stream& stream) {
  const int warps = kThreads / kWarp;
  const int spans = args.rows.span_capacity < warps ? args.rows.span_capacity : warps;
  Launch(stream, WalkKernel, {{1}, kWarp * (spans > 0 ? spans : 1)}, args);
}

}  // namespace bastion::kernels::cuda
