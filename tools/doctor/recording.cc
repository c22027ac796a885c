#include "tools/doctor/recording.h"

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "bastion/durations.h"
#include "common/base/status.h"

namespace bastion::doctor {
namespace {

void AddTree(const v1::VerifiedTree& tree, RecordedRequest* recorded) {
  RecordedTree& nodes = recorded->trees.emplace_back();
  for (const v1::VerifiedTree::Node& node : tree.nodes()) {
    nodes.push_back({node.path_probability(), node.accepted()});
    if (node.source() == v1::NODE_SOURCE_TABLE) ++recorded->table_nodes;
  }
}

void AddFinished(const v1::Finished& finished, RecordedRequest* recorded) {
  const v1::Timings& timings = finished.timings();
  recorded->output_tokens = static_cast<int>(finished.usage().completion_tokens());
  recorded->waited_for_room = finished.waited_for_room();
  recorded->prefill_seconds = Seconds(timings.prefill());
  recorded->decode_seconds = Seconds(timings.decode());
  recorded->draft_seconds = Seconds(timings.draft());
}

}  // namespace

absl::StatusOr<RecordedRequest> RunRequest(GenerationClient& client,
                                           const v1::GenerateRequest& prompt,
                                           const DecodeOptions& options) {
  v1::GenerateRequest request = prompt;
  request.set_cache_salt(options.salt);
  request.mutable_sampling()->set_temperature(static_cast<float>(options.temperature));
  request.mutable_sampling()->set_seed(1);
  request.mutable_stop()->set_max_tokens(options.max_new_tokens);
  request.mutable_output()->set_trees(options.trees);
  request.mutable_speculation()->set_policy(options.policy);
  RecordedRequest recorded;
  const absl::Status status = client.Generate(request, [&](const v1::GenerateResponse& event) {
    if (event.has_started()) {
      recorded.prompt_tokens = static_cast<int>(event.started().prompt_tokens());
    } else if (event.has_finished()) {
      AddFinished(event.finished(), &recorded);
    }
    for (const v1::CycleReport& cycle : event.delta().cycles()) {
      AddTree(cycle.verified_tree(), &recorded);
    }
    return true;
  });
  if (!status.ok()) return Annotate(status, absl::StrCat("policy ", options.policy));
  return recorded;
}

absl::StatusOr<std::vector<RecordedRequest>> RunTogether(
    GenerationClient& client, absl::Span<const v1::GenerateRequest> prompts, int requests,
    const DecodeOptions& options) {
  std::vector<absl::StatusOr<RecordedRequest>> results(requests);
  std::vector<std::thread> threads;
  threads.reserve(requests);
  for (int i = 0; i < requests; ++i) {
    threads.emplace_back([&, i] {
      DecodeOptions own = options;
      own.salt = absl::StrCat(options.salt, "-", i);
      results[i] = RunRequest(client, prompts[i % prompts.size()], own);
    });
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<RecordedRequest> recorded;
  for (absl::StatusOr<RecordedRequest>& result : results) {
    RETURN_IF_ERROR(result.status());
    recorded.push_back(*std::move(result));
  }
  return recorded;
}

}  // namespace bastion::doctor
