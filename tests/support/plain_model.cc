#include "tests/support/plain_model.h"

#include <algorithm>
#include <cmath>

#include "common/base/check.h"

namespace bastion::testing {

PlainModel::PlainModel(const std::string& folder) {
  auto device = nn::OpenLocalDevice(2);
  CHECK(device.ok()) << device.status();
  device_ = *std::move(device);
  verifier::VerifierOptions options;
  options.target_folder = folder;
  options.engine = {nn::FormatsFor(WeightFormat::kF32), device_.device, /*kv_tokens=*/16384};
  auto engine = verifier::VerifierEngine::Create(options);
  CHECK(engine.ok()) << engine.status();
  engine_ = *std::move(engine);
}

std::vector<std::pair<TokenId, double>> PlainModel::Next(const std::vector<TokenId>& prefix,
                                                         int count) {
  const SequenceId id = {session_++, 0};
  SamplingParams sampling;
  sampling.logprobs = count;
  CHECK(engine_->Open(id, sampling).ok());
  std::vector<TokenId> before(prefix.begin(), prefix.end() - 1);
  // Pages that earlier calls computed save time; they hold the same values.
  const auto reused = engine_->ReusePrefix({id, before, ""});
  CHECK(reused.ok()) << reused.status();
  for (Position at = *reused; at < static_cast<Position>(before.size());) {
    const auto end = std::min<Position>(at + 256, static_cast<Position>(before.size()));
    const auto chunk = engine_->Verify({}, {{id, at, {before.begin() + at, before.begin() + end}}});
    CHECK(chunk.ok()) << chunk.status();
    at = end;
  }
  const auto result =
      engine_->Verify({{id, static_cast<Position>(before.size()), DraftTree(prefix.back())}}, {});
  CHECK(result.ok()) << result.status();
  CHECK(result->outcomes.at(0).status.ok()) << result->outcomes[0].status;
  engine_->Close(id);
  std::vector<std::pair<TokenId, double>> next;
  for (const auto& [token, log_prob] : result->outcomes[0].acceptance.logprobs.at(0).top) {
    next.emplace_back(token, std::exp(static_cast<double>(log_prob)));
  }
  return next;
}

}  // namespace bastion::testing
