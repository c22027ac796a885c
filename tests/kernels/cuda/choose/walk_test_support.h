// Trees with choices, and walks over them on the device and on the host, for tests.
#ifndef BASTION_TESTS_KERNELS_CUDA_CHOOSE_WALK_TEST_SUPPORT_H_
#define BASTION_TESTS_KERNELS_CUDA_CHOOSE_WALK_TEST_SUPPORT_H_

#include <ostream>
#include <random>
#include <vector>

#include "kernels/cuda/ops.h"
#include "tests/kernels/cuda/device_test_support.h"

namespace bastion::kernels::cuda {

struct Tree {
  std::vector<int> parents;
  std::vector<int32_t> tokens;
  std::vector<int32_t> choices;

  [[nodiscard]] int rows() const { return static_cast<int>(parents.size()); }
};

// A chain with tokens 10, 11, …. No choice matches any of these tokens.
inline Tree Chain(int rows) {
  Tree tree = {ChainParents(rows), std::vector<int32_t>(rows), std::vector<int32_t>(rows, 5)};
  std::iota(tree.tokens.begin(), tree.tokens.end(), 10);
  return tree;
}

// A random tree. Siblings have different tokens. Most choices are the token of a child.
inline Tree RandomTree(int rows, std::mt19937& random) {
  Tree tree = {{-1}, {7}, std::vector<int32_t>(rows, 3)};
  std::vector<int> children(rows);
  for (int i = 1; i < rows; ++i) {
    // Half of the nodes are children of a recent node, so that paths are long.
    const int parent =
        random() % 2 != 0 ? i - 1 - int(random() % std::min(i, 3)) : int(random() % i);
    tree.parents.push_back(parent);
    tree.tokens.push_back(20 + children[parent]++);
  }
  for (int i = 0; i < rows; ++i) {
    if (random() % 8 != 0 && children[i] > 0) {
      tree.choices[i] = 20 + int32_t(random() % children[i]);
    }
  }
  return tree;
}

struct Walked {
  int length = 0;
  int32_t next = 0;
  int first_kept = 0;
  std::vector<int32_t> path;

  friend bool operator==(const Walked&, const Walked&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Walked& walked) {
    return out << "length " << walked.length << ", next " << walked.next << ", first kept row "
               << walked.first_kept;
  }
};

// Walks like the verifier's Accept.
inline std::vector<Walked> HostWalks(const std::vector<Tree>& trees) {
  std::vector<Walked> all;
  int kept = 0;
  for (const Tree& tree : trees) {
    Walked walked;
    walked.first_kept = kept;
    if (std::count_if(tree.choices.begin(), tree.choices.end(), [](int c) { return c < 0; }) > 0) {
      walked.length = walked.next = -1;
      all.push_back(walked);
      continue;
    }
    int at = 0;
    walked.next = tree.choices[0];
    for (int child = 1; child < tree.rows(); ++child) {
      if (tree.parents[child] != at || tree.tokens[child] != walked.next) continue;
      walked.path.push_back(child);
      at = child;
      walked.next = tree.choices[child];
    }
    walked.length = static_cast<int>(walked.path.size());
    kept += 1 + walked.length;
    all.push_back(walked);
  }
  return all;
}

inline std::vector<Walked> AsWalked(const std::vector<Tree>& trees,
                                    const std::vector<WalkResult>& results,
                                    const std::vector<int32_t>& paths) {
  std::vector<Walked> all;
  int row = 0;
  for (size_t b = 0; b < trees.size(); row += trees[b++].rows()) {
    const WalkResult& result = results[b];
    Walked walked = {result.path_length, result.next, result.first_kept, {}};
    for (int k = 0; k < result.path_length; ++k) walked.path.push_back(paths[row + k]);
    all.push_back(walked);
  }
  return all;
}

// Walks on the device, with capacity for more rows and spans than are used. Expects that the copies
// for the host equal the results on the device.
inline std::vector<Walked> DeviceWalks(const std::vector<Tree>& trees, Stream& stream) {
  std::vector<TestSpan> spans;
  std::vector<int32_t> choices;
  for (const Tree& tree : trees) {
    spans.push_back({0, RowMask::kAncestors, tree.parents,
                     std::vector<int32_t>(tree.rows() / kPageTokens + 1), tree.tokens});
    choices.insert(choices.end(), tree.choices.begin(), tree.choices.end());
  }
  const int row_capacity = static_cast<int>(choices.size()) + 3;
  const int span_capacity = static_cast<int>(trees.size()) + 2;
  choices.resize(row_capacity, -1);  // Choices of padding rows.
  const TestRows rows(spans, row_capacity, span_capacity);
  const OnDevice<int32_t> chosen(choices);
  const OnDevice<WalkResult> results(span_capacity, WalkResult{-7, -7, -7});
  const OnDevice<WalkResult> for_host(span_capacity, WalkResult{-7, -7, -7});
  const OnDevice<int32_t> paths(row_capacity, -7), paths_for_host(row_capacity, -7);
  WalkArgs args = {rows.rows(), chosen.data(), results.data(), paths.data()};
  Walk(args, stream);  // Without copies for the host.
  args.results_for_host = for_host.data();
  args.paths_for_host = paths_for_host.data();
  Walk(args, stream);
  EXPECT_TRUE(stream.Synchronize().ok());
  const std::vector<Walked> walked = AsWalked(trees, results.Read(), paths.Read());
  EXPECT_EQ(AsWalked(trees, for_host.Read(), paths_for_host.Read()), walked);
  EXPECT_EQ(results.Read()[trees.size()].next, -7);
  EXPECT_EQ(for_host.Read()[trees.size()].next, -7);
  return walked;
}

}  // namespace bastion::kernels::cuda

#endif  // BASTION_TESTS_KERNELS_CUDA_CHOOSE_WALK_TEST_SUPPORT_H_
