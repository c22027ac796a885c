// Row buckets: the row counts for which a device records a step (Device::records). A step is padded
// to the next larger bucket.
//
// The buckets follow the tile sizes of matrix products (16 and 64 rows), where the cost of a step
// increases. They are close enough to each other that padding is cheap.
#ifndef BASTION_ENGINE_MODEL_ROW_BUCKETS_H_
#define BASTION_ENGINE_MODEL_ROW_BUCKETS_H_

#include <algorithm>
#include <vector>

namespace bastion::nn {

// The buckets below `max_rows`, and `max_rows` itself, ascending. REQUIRES: max_rows > 0.
[[nodiscard]] inline std::vector<int> RowBuckets(int max_rows) {
  std::vector<int> buckets;
  for (const int rows : {1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024}) {
    if (rows < max_rows) buckets.push_back(rows);
  }
  buckets.push_back(max_rows);
  return buckets;
}

// The buckets of verify forwards. The budgets of the papers, 16, 32, … 1024 nodes, need one row
// more for the root, so these row counts have buckets of their own. Without them, the verify of 256
// nodes would be padded to 384 rows.
[[nodiscard]] inline std::vector<int> TreeRowBuckets(int max_rows) {
  std::vector<int> buckets = RowBuckets(max_rows);
  for (int nodes = 16; nodes <= 1024 && nodes + 1 < max_rows; nodes *= 2) {
    buckets.push_back(nodes + 1);
  }
  std::sort(buckets.begin(), buckets.end());
  return buckets;
}

// The smallest bucket that holds `rows` rows, or `rows` if there are no buckets. REQUIRES: rows <=
// buckets.back().
[[nodiscard]] inline int BucketOf(const std::vector<int>& buckets, int rows) {
  for (const int bucket : buckets) {
    if (rows <= bucket) return bucket;
  }
  return buckets.empty() ? rows : buckets.back();
}

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_ROW_BUCKETS_H_
