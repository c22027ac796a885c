// The interface between the autoregressive engine and its models: drafters that predict P positions
// after each node that they expand. Some expand only the root.
//
// Not thread-safe: one call at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_DRAFTER_SERVICE_DRAFT_NODE_MODEL_H_
#define BASTION_DRAFTER_SERVICE_DRAFT_NODE_MODEL_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/hub/model_config.h"
#include "common/stages/features.h"
#include "common/stages/marginals.h"
#include "engine/model/forward_cost.h"
#include "engine/model/page_pool.h"
#include "engine/model/row_batch.h"
#include "kernels/ops/ops.h"

namespace bastion::drafter {

// The features of consecutive tokens [tokens, F], as bytes.
struct TokenFeatures {
  Features features;
  int rows_each = 1;  // Rows of the batch that belong to each of the tokens.
};

// The rows of one forward: those of committed tokens, and P for each node. What they read beside
// their tokens is in the order of the batch. A model with states reads features for all tokens, or
// states for all nodes.
struct NodeRows {
  nn::RowBatch batch;
  std::vector<TokenFeatures> features;
  std::string states;  // [nodes] Those of the rows that predicted the nodes.
};

class NodeModel {
 public:
  // Rows of one drafted tree. A tree with more gets no more drafts in its cycle.
  static constexpr int kTreeRows = 4096;

  virtual ~NodeModel() = default;

  // Hint that a call is about to start. Wakes the worker threads.
  virtual void WakeUp() = 0;

  // Runs one forward over `rows` and writes keys and values to the cache. REQUIRES: rows.batch has
  // at most max_rows() rows. INVALID_ARGUMENT for features of the wrong width.
  [[nodiscard]] virtual absl::Status Forward(const NodeRows& rows) = 0;
  // Also predicts the distributions after nodes: P marginals for each. `wanted` are the nodes' rows
  // in the batch, and `coupling` has one rule per wanted row (kernels::TopKArgs).
  [[nodiscard]] virtual absl::StatusOr<std::vector<Marginals>> Predict(
      const NodeRows& rows, absl::Span<const int> wanted,
      absl::Span<const kernels::ChoiceRule> coupling, int candidates) = 0;
  // The part of the last Predict that ranked candidates.
  [[nodiscard]] virtual absl::Duration candidates_time() const = 0;

  [[nodiscard]] virtual int positions() const { return 1; }  // P
  // Rows of a committed token in the cache. 0: the model has no cache, and reads only the features
  // of the last committed token.
  [[nodiscard]] virtual int rows_per_token() const { return positions(); }
  // False: only the root is expanded. The marginals of other paths stay empty.
  [[nodiscard]] virtual bool expands_nodes() const { return true; }
  // The token of a node's rows after the first. Not set: the node's own.
  [[nodiscard]] virtual std::optional<TokenId> mask_token() const { return std::nullopt; }
  // Whether the rows of a node rotate by its depth in the tree, too.
  [[nodiscard]] virtual bool depth_rotates() const { return true; }

  // ---- models that read features ----
  // The target layers whose outputs the model reads. Empty: it reads tokens alone.
  [[nodiscard]] virtual const std::vector<int>& feature_layers() const = 0;
  // The first token with a row. 0, or 1 if the row of a token reads the features of the token
  // before it: then the root's row does, too.
  [[nodiscard]] int first_token() const { return feature_layers().empty() ? 0 : 1; }
  // Bytes of the state that a row hands to the nodes that it predicts, which read it instead of
  // features. 0: the model has no states, and one forward may take nodes with their parents.
  [[nodiscard]] virtual size_t state_bytes() const = 0;
  // The state of a row of the last Predict's batch, in host memory.
  [[nodiscard]] virtual const char* state(int row) const = 0;

  // Rows of one forward.
  [[nodiscard]] virtual int max_rows() const = 0;
  [[nodiscard]] virtual nn::PagePool& pages() = 0;
  [[nodiscard]] virtual const hub::ModelConfig& config() const = 0;
  // The bytes read and the multiply-adds of a forward, including its logits.
  [[nodiscard]] virtual nn::ForwardCost Cost() const = 0;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_DRAFT_NODE_MODEL_H_
