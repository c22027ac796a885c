// Makes requests for the tests of the queue and the scheduler.
#ifndef BASTION_TESTS_ORCHESTRATOR_SCHEDULE_LIVE_REQUEST_FIXTURE_H_
#define BASTION_TESTS_ORCHESTRATOR_SCHEDULE_LIVE_REQUEST_FIXTURE_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "orchestrator/schedule/live_request.h"
#include "tests/support/hub_fixtures.h"

namespace bastion::testing {

// The parts of a request that these tests vary.
struct RequestSpec {
  std::string client = "";
  std::string id = "request";
  int priority = 10;
  std::vector<TokenId> prompt = {1, 2, 3};
  int max_tokens = 20;
  bool default_max_tokens = false;
  std::string policy = "ar";
  absl::Duration deadline = absl::InfiniteDuration();
  // Names the request in SharedVerifier::opened(). It has no other effect at temperature 0.
  uint64_t seed = 0;
  std::string cache_salt = "";
  std::optional<absl::Duration> latency_target = std::nullopt;
  int answers = 1;
  TraceContext trace = {};
  std::shared_ptr<const TokenConstraint> constraint = nullptr;
  SpecialStops special_stops = {};
};

class RequestMaker {
 public:
  explicit RequestMaker(const Clock* clock = &Clock::Real()) : clock_(clock) {}

  std::unique_ptr<LiveRequest> Make(const RequestSpec& spec) const {
    PreparedRequest request{spec.id, {}, *Policy::Parse(spec.policy), *StopStrings::Create({})};
    request.decode.prompt = spec.prompt;
    request.decode.max_tokens = spec.max_tokens;
    request.decode.sampling.seed = spec.seed;
    request.decode.cache_salt = spec.cache_salt;
    request.decode.node_cap = {.on_cpu = 32};
    request.decode.weight = spec.priority / 10.0;
    request.decode.latency_target = spec.latency_target;
    request.decode.constraint = spec.constraint;
    request.special_stops = spec.special_stops;
    for (const auto& [token, text] : spec.special_stops) request.decode.stop_tokens.insert(token);
    request.default_max_tokens = spec.default_max_tokens;
    request.answers = spec.answers;
    request.trace = spec.trace;
    request.client = spec.client;
    request.deadline = spec.deadline;
    LiveRequest::CallShare call = {
        std::make_shared<RequestStream>(absl::ZeroDuration(), spec.answers)};
    return std::make_unique<LiveRequest>(std::move(request), &tokenizer_, clock_, std::move(call),
                                         observer_);
  }

  // For the requests made from now on.
  void set_observer(ServingObserver* observer) { observer_ = observer; }

  // Makes `request` the `admission`-th admitted one.
  void Admit(LiveRequest& request, uint64_t admission) {
    request.CreateSequence({admission, 0}, admission, nullptr, &memory_);
  }

 private:
  const hub::Tokenizer tokenizer_ = LoadTokenizer(ByteLevelTokenizerJson());
  const Clock* const clock_;
  SharedLearning memory_;
  ServingObserver* observer_ = nullptr;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_ORCHESTRATOR_SCHEDULE_LIVE_REQUEST_FIXTURE_H_
