// PlainModel: a causal language model without speculation, trees or rounds. It computes the next
// tokens after a prefix from the whole prefix. Tests compare an autoregressive drafter with it.
// Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_PLAIN_MODEL_H_
#define BASTION_TESTS_SUPPORT_PLAIN_MODEL_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/ids.h"
#include "engine/program/local_device.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::testing {

class PlainModel {
 public:
  // The model in `folder`, in fp32. Ends the process if it does not load.
  explicit PlainModel(const std::string& folder);

  // The `count` most probable tokens after `prefix` with their probabilities, best first.
  [[nodiscard]] std::vector<std::pair<TokenId, double>> Next(const std::vector<TokenId>& prefix,
                                                             int count);

 private:
  nn::LocalDevice device_;
  std::unique_ptr<verifier::VerifierEngine> engine_;
  uint64_t session_ = 1;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_PLAIN_MODEL_H_
