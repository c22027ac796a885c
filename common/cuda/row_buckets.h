// Row buckets: the row counts for which a GPU step is recorded as a graph. A step is padded to the
// next larger bucket.
//
// The buckets follow the tile sizes of matrix products (16 and 64 rows), where the cost of a step
// increases. They are close enough to each other that padding is cheap.
#ifndef BASTION_COMMON_CUDA_ROW_BUCKETS_H_
#define BASTION_COMMON_CUDA_ROW_BUCKETS_H_

#include <vector>

namespace bastion::cuda {

// The buckets below `max_rows`, and `max_rows` itself, ascending. REQUIRES: max_rows > 0.
[[nodiscard]] inline std::vector<int> RowBuckets(int max_rows) {
  std::vector<int> buckets;
  for (const int rows : {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384}) {
    if (rows < max_rows) buckets.push_back(rows);
  }
  buckets.push_back(max_rows);
  return buckets;
}

// The smallest bucket that holds `rows` rows. REQUIRES: rows <= buckets.back().
[[nodiscard]] inline int BucketOf(const std::vector<int>& buckets, int rows) {
  for (const int bucket : buckets) {
    if (rows <= bucket) return bucket;
  }
  return buckets.back();
}

}  // namespace bastion::cuda

#endif  // BASTION_COMMON_CUDA_ROW_BUCKETS_H_
