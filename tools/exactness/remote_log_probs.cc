#include "bastion/generation_client.h"
#include "common/base/status.h"
#include "tools/exactness/log_prob_source.h"

namespace bastion {
namespace {

constexpr uint32_t kMaxLogProbs = 100;  // The orchestrator's limit.

class RemoteLogProbs final : public LogProbSource {
 public:
  explicit RemoteLogProbs(const std::string& endpoint) : client_(endpoint) {}

  absl::StatusOr<std::optional<std::pair<double, double>>> LogProbs(
      const std::vector<TokenId>& prefix, std::pair<TokenId, TokenId> tokens) override {
    v1::GenerateRequest request;
    request.mutable_tokens()->mutable_ids()->Add(prefix.begin(), prefix.end());
    request.mutable_stop()->set_max_tokens(1);
    request.mutable_output()->set_logprobs(kMaxLogProbs);
    request.mutable_speculation()->set_mode(v1::SpeculationOptions::MODE_OFF);
    std::optional<double> first, second;
    RETURN_IF_ERROR(client_.Generate(request, [&](const v1::GenerateResponse& event) {
      for (const v1::TokenLogprobs& position : event.delta().logprobs()) {
        for (const v1::TokenLogprobs::Entry& entry : position.top()) {
          if (entry.token_id() == tokens.first) first = entry.logprob();
          if (entry.token_id() == tokens.second) second = entry.logprob();
        }
      }
      return true;
    }));
    if (!first || !second) return std::nullopt;
    return std::make_pair(*first, *second);
  }

 private:
  GenerationClient client_;
};

}  // namespace

std::unique_ptr<LogProbSource> MakeRemoteLogProbs(const std::string& endpoint) {
  return std::make_unique<RemoteLogProbs>(endpoint);
}

}  // namespace bastion
