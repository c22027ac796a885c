// StreamingReference: a plain implementation of attention with sinks and a rolling window, by the
// procedure of StreamingLLM (Xiao et al., arXiv 2309.17453): it decodes one token at a time. The
// cache holds unrotated keys; a new token evicts the oldest one that is not a sink; keys and query
// are rotated by their places in the cache. It shares no code with the engine except the reading of
// files, and computes in double. Qwen3 and GPT-NeoX. Thread-compatible.
#ifndef BASTION_TESTS_SUPPORT_STREAMING_REFERENCE_H_
#define BASTION_TESTS_SUPPORT_STREAMING_REFERENCE_H_

#include <string>
#include <vector>

#include "common/base/ids.h"

namespace bastion::testing {

class StreamingReference {
 public:
  using Vector = std::vector<double>;

  // The model in `folder`. A cache holds at most sinks + window tokens. Ends the process if the
  // model does not load.
  StreamingReference(const std::string& folder, int sinks, int window);

  // Decodes `token`. Returns the logits [V] of the next one.
  Vector Append(TokenId token);

  // One matrix [rows, columns], perhaps with a bias [rows].
  struct Matrix {
    int rows = 0, columns = 0;
    std::vector<float> values, bias;

    [[nodiscard]] Vector Times(const Vector& x) const;
    [[nodiscard]] Matrix Rows(int begin, int count) const;
  };
  struct Norm {
    std::vector<float> weight, bias;  // Without a bias: RMS norm.
  };
  struct Layer {
    Norm attention_norm, mlp_norm, query_norm, key_norm;
    Matrix query, key, value, output, gate, up, down;
  };
  struct Dims {
    bool neox = false, parallel = false;
    int layers = 0, hidden = 0, inner = 0, heads = 0, kv_heads = 0, head_dim = 0, rotary = 0;
    int vocabulary = 0;
    double theta = 0, epsilon = 0;
  };

 private:
  struct Token {
    Vector key, value;  // [G, D], not rotated.
  };

  [[nodiscard]] Vector Normed(const Norm& norm, const Vector& x) const;
  // The head rotated by `position`.
  [[nodiscard]] Vector Rotated(const Vector& heads, int head, int position) const;
  [[nodiscard]] Vector Attend(int layer, const Vector& normed);
  [[nodiscard]] Vector Mlp(const Layer& layer, const Vector& normed) const;

  const int sinks_, window_;
  Dims dims_;
  Matrix embedding_, head_;
  Norm final_norm_;
  std::vector<Layer> layers_;
  std::vector<std::vector<Token>> caches_;  // By layer.
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_STREAMING_REFERENCE_H_
