#include "engine/host/accept.h"

#include <algorithm>

namespace bastion::nn {
namespace {

kernels::WalkResult AcceptTree(const kernels::Rows& rows, const WalkArgs& args, int b) {
  const int first = rows.first_rows[b], count = rows.first_rows[b + 1] - first;
  const int32_t* const choices = args.choices + first;
  if (std::any_of(choices, choices + count, [](int32_t choice) { return choice < 0; })) {
    return {.path_length = -1, .next = -1};
  }
  kernels::WalkResult walked;
  walked.next = choices[0];
  // Children come after their parents, so one pass finds the whole path.
  for (int child = 1, at = 0; child < count; ++child) {
    if (rows.parents[first + child] != at || rows.tokens[first + child] != walked.next) continue;
    args.paths[first + walked.path_length++] = child;
    at = child;
    walked.next = choices[child];
  }
  return walked;
}

}  // namespace

void AcceptTrees(const kernels::Rows& rows, const WalkArgs& args) {
  int kept = 0;
  for (int b = 0; b < rows.used[1]; ++b) {
    args.results[b] = AcceptTree(rows, args, b);
    args.results[b].first_kept = kept;
    kept += args.results[b].path_length + 1;
  }
}

}  // namespace bastion::nn
