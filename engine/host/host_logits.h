// Logits in host memory.
#ifndef BASTION_ENGINE_HOST_HOST_LOGITS_H_
#define BASTION_ENGINE_HOST_HOST_LOGITS_H_

#include <vector>

#include "engine/model/device.h"

namespace bastion::nn {

class HostLogits final : public Logits {
 public:
  HostLogits(const HostKernels& host, int vocabulary) : host_(host), vocabulary_(vocabulary) {}

  float* Reserve(int rows) override { return values_ = memory_.Reserve(rows, vocabulary_); }
  int vocabulary() const override { return vocabulary_; }
  absl::Status Edit(const LogitEdits& edits) override;
  void Restore() override;
  void Choose(const Choice& choice) override;
  void Rank(const Ranking& ranking) override;
  void Scale(int rows, float factor, float cap) override;
  void CopyRows(int rows, float* to) override;
  int max_candidates() const override { return vocabulary_; }
  absl::StatusOr<std::vector<TokenLogprobs>> Score(absl::Span<const Scored> scored) override;
  absl::StatusOr<float*> Row(int row) override { return At(row); }

 private:
  [[nodiscard]] float* At(int row) const { return values_ + int64_t{row} * vocabulary_; }

  [[nodiscard]] TokenLogprobs ScoreRow(const Scored& scored) const;

  struct Edited {
    float* logit = nullptr;
    float before = 0;
  };
  struct KeptRow {
    int row = 0;
    std::vector<float> before;
  };

  const HostKernels host_;
  const int vocabulary_;
  Scratch memory_;
  float* values_ = nullptr;
  std::vector<Edited> edited_;
  std::vector<KeptRow> kept_;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_HOST_HOST_LOGITS_H_
