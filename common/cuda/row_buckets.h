// How many rows steps are recorded for: a step runs as the next larger one.
//
// By where matrix products get dearer (tiles of 16 and 64 rows), close enough that padding is
// cheap.
#ifndef BASTION_COMMON_CUDA_ROW_BUCKETS_H_
#define BASTION_COMMON_CUDA_ROW_BUCKETS_H_

#include <vector>

namespace bastion::cuda {

// Those up to `most`, and `most` itself. REQUIRES: most > 0.
[[nodiscard]] inline std::vector<int> RowBuckets(int most) {
  std::vector<int> buckets;
  for (const int rows : {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384}) {
    if (rows < most) buckets.push_back(rows);
  }
  buckets.push_back(most);
  return buckets;
}

// The bucket that `rows` run in. REQUIRES: rows <= buckets.back().
[[nodiscard]] inline int BucketOf(const std::vector<int>& buckets, int rows) {
  for (const int bucket : buckets) {
    if (rows <= bucket) return bucket;
  }
  return buckets.back();
}

}  // namespace bastion::cuda

#endif  // BASTION_COMMON_CUDA_ROW_BUCKETS_H_
