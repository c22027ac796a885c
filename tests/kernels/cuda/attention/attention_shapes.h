// The shapes for tests and benchmarks of GPU attention.
#ifndef BASTION_TESTS_KERNELS_CUDA_ATTENTION_ATTENTION_SHAPES_H_
#define BASTION_TESTS_KERNELS_CUDA_ATTENTION_ATTENTION_SHAPES_H_

#include <string>
#include <utility>
#include <vector>

namespace bastion::kernels::cuda {

// How the rows of a span depend on each other. kChain: mask kCausal. kTree: a random tree, mask
// kAncestors. kPath: a chain with mask kAncestors. kBlock: mask kFull.
enum class Form { kChain, kTree, kPath, kBlock };

struct SpanShape {
  int cached = 0;
  int rows = 0;  // Those of the whole tree.
  Form form = Form::kChain;
  int earlier = 0;  // The first rows of the tree, which are in the cache and have no queries.
};

struct AttentionShape {
  std::string name;
  int query_heads = 1;
  int kv_heads = 1;
  int head_dim = 64;
  std::vector<SpanShape> spans;
  int window = 0;
  bool causal = false;
  bool large = false;  // Too slow on the emulator: only a GPU runs it.
  int sinks = 0;
};

namespace shapes {

inline std::string NameOf(const AttentionShape& shape) {
  const SpanShape& first = shape.spans.front();
  const char* const form = first.form == Form::kChain  ? "Chain"
                           : first.form == Form::kTree ? "Tree"
                           : first.form == Form::kPath ? "Path"
                                                       : "Block";
  return "H" + std::to_string(shape.query_heads) + "G" + std::to_string(shape.kv_heads) + "D" +
         std::to_string(shape.head_dim) + form + std::to_string(first.rows) + "After" +
         std::to_string(first.cached);
}

inline AttentionShape Named(AttentionShape shape) {
  if (shape.name.empty()) shape.name = NameOf(shape);
  return shape;
}

// Adds row counts and contexts at and around the sizes of pages, key tiles and row tiles; heads of
// every width; and group sizes that are not powers of two.
inline void AddEdges(std::vector<AttentionShape>& shapes) {
  for (const int rows : {1, 2, 15, 16, 17, 64, 65}) {
    for (const int cached : {0, 1, 15, 16, 17, 63, 64, 65}) {
      shapes.push_back(Named({"", 2, 1, 64, {{cached, rows, Form::kTree}}}));
    }
  }
  for (const auto& [heads, kv_heads] :
       {std::pair{3, 3}, {6, 2}, {4, 1}, {8, 1}, {16, 1}, {32, 2}}) {
    const bool large = heads > 16;
    shapes.push_back(Named({"", heads, kv_heads, 64, {{21, 7, Form::kTree}}, 0, false, large}));
    shapes.push_back(Named({"", heads, kv_heads, 64, {{150, 1, Form::kChain}}, 0, false, large}));
    shapes.push_back(Named({"", heads, kv_heads, 64, {{9, 8, Form::kBlock}}, 0, false, large}));
  }
  for (const int dim : {8, 32, 40, 80, 96, 128, 192, 256}) {
    shapes.push_back(Named({"", 4, 2, dim, {{70, 5, Form::kTree}}}));
    shapes.push_back(Named({"", 4, 2, dim, {{140, 40, Form::kTree}}, 0, false, dim > 128}));
  }
}

// Adds contexts that are divided into several chunks, and trees with several words of ancestor bits
// and several row tiles.
inline void AddLong(std::vector<AttentionShape>& shapes) {
  shapes.push_back(Named({"", 4, 1, 128, {{500, 1, Form::kChain}}}));
  shapes.push_back(Named({"", 4, 1, 128, {{2048, 1, Form::kChain}}}));
  shapes.push_back(Named({"", 4, 1, 128, {{505, 16, Form::kTree}}}));
  shapes.push_back(Named({"", 2, 1, 128, {{700, 15, Form::kTree}}}));
  shapes.push_back(Named({"", 3, 1, 64, {{3000, 2, Form::kTree}}}));
  shapes.push_back(Named({"", 8, 2, 128, {{8200, 4, Form::kTree}}}));
  shapes.push_back(Named({"", 1, 1, 64, {{30, 256, Form::kTree}}}));
  shapes.push_back(Named({"", 1, 1, 64, {{0, 200, Form::kChain}}}));
  for (const int rows : {1, 8, 16, 32, 64, 256}) {
    for (const int cached : {500, 2048, 8192, 32768}) {
      shapes.push_back(
          Named({"", 32, 8, 128, {{cached, rows, Form::kTree}}, 0, false, /*large=*/true}));
    }
  }
  shapes.push_back(Named({"", 32, 8, 128, {{1024, 512, Form::kChain}}, 0, false, true}));
  shapes.push_back(Named({"", 16, 8, 256, {{4096, 16, Form::kTree}}, 0, false, true}));
}

// Adds steps of several sequences with different lengths, trees and masks, and sliding windows.
inline void AddRagged(std::vector<AttentionShape>& shapes) {
  const std::vector<SpanShape> mixed = {
      {45, 33, Form::kTree}, {0, 1, Form::kChain},  {300, 1, Form::kChain}, {16, 19, Form::kChain},
      {33, 8, Form::kBlock}, {130, 3, Form::kTree}, {7, 70, Form::kPath}};
  shapes.push_back({"Mixed", 4, 2, 64, mixed});
  shapes.push_back({"MixedWithinWindow", 4, 2, 64, mixed, 9});
  shapes.push_back({"MixedWithinWideWindow", 3, 1, 64, mixed, 100});
  shapes.push_back({"MixedCausalBlocks", 2, 1, 64, mixed, 0, true});
  shapes.push_back({"WindowOfOneKey", 2, 1, 64, {{100, 20, Form::kTree}, {3, 5, Form::kChain}}, 1});
  shapes.push_back({"WindowInALongContext", 4, 1, 64, {{1500, 20, Form::kTree}}, 400});
  shapes.push_back({"WindowAndChainOfManyTiles", 1, 1, 64, {{90, 180, Form::kChain}}, 70});
  // Later rounds of a drafter: only the last rows of each tree are new.
  const std::vector<SpanShape> rounds = {{45, 33, Form::kTree, 12},
                                         {300, 5, Form::kTree, 4},
                                         {0, 70, Form::kTree, 64},
                                         {33, 150, Form::kTree, 90},
                                         {130, 3, Form::kTree}};
  shapes.push_back({"LaterRounds", 4, 2, 64, rounds});
  shapes.push_back({"LaterRoundsWithinWindow", 4, 2, 64, rounds, 4});
  shapes.push_back({"LaterRoundsWithinWideWindow", 2, 1, 128, rounds, 48});
  std::vector<SpanShape> many;
  for (int b = 0; b < 150; ++b) many.push_back({b % 40, 1 + b % 3, Form::kTree});
  shapes.push_back({"ManySequences", 1, 1, 32, many});
  std::vector<SpanShape> served;
  for (int b = 0; b < 16; ++b) served.push_back({200 + 300 * b, 1 + 3 * b % 17, Form::kTree});
  shapes.push_back({"Served", 32, 8, 128, served, 0, false, true});
}

}  // namespace shapes

inline std::vector<AttentionShape> AttentionShapes() {
  std::vector<AttentionShape> all;
  shapes::AddEdges(all);
  shapes::AddLong(all);
  shapes::AddRagged(all);
  return all;
}

}  // namespace bastion::kernels::cuda

#endif  // BASTION_TESTS_KERNELS_CUDA_ATTENTION_ATTENTION_SHAPES_H_
