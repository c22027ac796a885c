#include "orchestrator/console/console_feed.h"

#include <algorithm>

#include "orchestrator/schedule/live_request.h"

namespace bastion {
namespace {

int64_t IntervalIndex(absl::Duration now) { return now / ConsoleFeed::kInterval; }

ConsoleRequest Describe(const LiveRequest& live) {
  const PreparedRequest& request = live.request();
  ConsoleRequest shown;
  shown.id = request.request_id.substr(0, ConsoleFeed::kNameBytes);
  shown.client = request.client.substr(0, ConsoleFeed::kNameBytes);
  shown.policy = request.policy.text();
  shown.prompt_tokens = static_cast<int>(request.decode.prompt.size());
  shown.max_tokens = request.decode.max_tokens;
  return shown;
}

// REQUIRES: `live` is admitted.
void Update(const LiveRequest& live, ConsoleRequest* shown) {
  const DecodeSequence& sequence = live.sequence();
  shown->prompt_left = sequence.prompt_left();
  shown->state =
      shown->prompt_left > 0 ? ConsoleRequest::State::kPrefill : ConsoleRequest::State::kDecoding;
  shown->output_tokens = static_cast<int>(sequence.output().size());
  shown->cycles = static_cast<int>(sequence.cycles().size());
  shown->decode = live.times().decode;
  if (sequence.cycles().empty()) return;
  const std::shared_ptr<const VerifiedTree>& tree = sequence.cycles().back().tree;
  if (tree == nullptr || tree->tree.nodes() == 0) return;
  shown->tree = tree;
  shown->tree_cycle = shown->cycles;
}

}  // namespace

void ConsoleFeed::OnCycle(const CycleSummary& cycle, const ServedCycle& requests) {
  const absl::Duration now = clock_.Now();
  MutexLock lock(&mutex_);
  const int tokens = AddDecoding(cycle, requests, now);
  last_cycle_ = now;
  ++newest_;
  ring_[newest_ % kCycles] = {.number = newest_,
                              .mode = ModeOf(cycle),
                              .stages = cycle.stages,
                              .predicted_verify = cycle.predicted_verify,
                              .requests = static_cast<int>(requests.decoding.size()),
                              .rows = cycle.size.rows,
                              .prompt_rows = cycle.size.prompts.rows,
                              .nodes = cycle.nodes(),
                              .tokens = tokens};
  if (IsWatched(now)) RecordRequests(requests, now);
}

void ConsoleFeed::RecordRequests(const ServedCycle& requests, absl::Duration now) {
  const bool all_trees = now - trees_began_ >= kTreeInterval;
  if (all_trees) {
    trees_began_ = now;
    trees_left_ = kTrees;
  }
  const auto record = [&](const LiveRequest& request) -> const Request* {
    mutex_.AssertHeld();
    Request* const entry = FindOrAdd(request, now);
    if (entry == nullptr) return nullptr;
    Update(request, &entry->shown);
    entry->last_served = now;
    return entry;
  };
  for (const ServedChunk& chunk : requests.chunks) record(*chunk.request);
  for (LiveRequest* request : requests.decoding) {
    // OnEnd has recorded those that are done.
    if (request->sequence().done()) continue;
    const Request* const entry = record(*request);
    if (entry == nullptr || trees_left_ == 0) continue;
    if (!all_trees && entry->shown.tree != nullptr) continue;
    request->sequence().KeepNextTree();
    --trees_left_;
  }
}

int ConsoleFeed::AddDecoding(const CycleSummary& cycle, const ServedCycle& requests,
                             absl::Duration now) {
  if (requests.decoding.empty()) return 0;
  Interval& interval = intervals_[IntervalIndex(now) % kIntervals];
  if (interval.index != IntervalIndex(now)) interval = {.index = IntervalIndex(now)};
  ConsoleInterval& totals = interval.totals;
  int tokens = 0;
  for (const LiveRequest* request : requests.decoding) {
    const int length = request->sequence().cycles().back().committed_length;
    tokens += length;
    ++totals.request_cycles;
    ++totals.lengths[std::clamp(length, 1, ConsoleInterval::kLengths) - 1];
  }
  // Plain decoding commits one token for each sequence.
  const absl::Duration plain =
      cycle.plain * (static_cast<double>(tokens) / static_cast<double>(requests.decoding.size()));
  totals.tokens += tokens;
  totals.spent += cycle.decode_time();
  totals.plain += plain;
  speedup_.Observe(cycle.decode_time(), plain);
  return tokens;
}

void ConsoleFeed::OnEnd(const LiveRequest& request, const absl::Status& status) {
  const absl::Duration now = clock_.Now();
  MutexLock lock(&mutex_);
  Request* entry = Find(request);
  if (entry == nullptr && request.admitted() && IsWatched(now)) entry = FindOrAdd(request, now);
  if (entry == nullptr) return;
  Update(request, &entry->shown);
  entry->shown.state = status.ok() ? ConsoleRequest::State::kDone : ConsoleRequest::State::kFailed;
  entry->last_served = now;
  entry->live = nullptr;
}

ConsoleFeed::Request* ConsoleFeed::Find(const LiveRequest& request) {
  const auto found = std::find_if(requests_.begin(), requests_.end(),
                                  [&](const Request& entry) { return entry.live == &request; });
  return found == requests_.end() ? nullptr : &*found;
}

ConsoleFeed::Request* ConsoleFeed::FindOrAdd(const LiveRequest& request, absl::Duration now) {
  if (Request* found = Find(request); found != nullptr) return found;
  RemoveEnded(now);
  if (requests_.size() >= kRequests) {
    const auto ended = std::find_if(requests_.begin(), requests_.end(),
                                    [](const Request& entry) { return entry.live == nullptr; });
    if (ended == requests_.end()) return nullptr;
    requests_.erase(ended);
  }
  requests_.push_back({.live = &request, .last_served = now, .shown = Describe(request)});
  return &requests_.back();
}

void ConsoleFeed::RemoveEnded(absl::Duration now) {
  std::erase_if(requests_, [&](const Request& entry) {
    return entry.live == nullptr && now - entry.last_served > kEndedKept;
  });
}

ConsoleSnapshot ConsoleFeed::Read(int64_t after) {
  const absl::Duration now = clock_.Now();
  watched_until_ = absl::ToInt64Nanoseconds(now + kWatched);
  ConsoleSnapshot snapshot;
  snapshot.cycles.reserve(kCycles);
  snapshot.intervals.resize(kIntervals);
  snapshot.requests.reserve(kRequests);
  snapshot.speedup = speedup_.ratio();
  MutexLock lock(&mutex_);
  if (newest_ > 0) snapshot.idle = now - last_cycle_;
  after = after > newest_ ? 0 : std::max<int64_t>(after, 0);
  for (int64_t n = std::max(after, newest_ - kCycles) + 1; n <= newest_; ++n) {
    snapshot.cycles.push_back(ring_[n % kCycles]);
  }
  for (int i = 0; i < kIntervals; ++i) {
    const int64_t index = IntervalIndex(now) - kIntervals + 1 + i;
    const Interval& interval = intervals_[std::max<int64_t>(index, 0) % kIntervals];
    if (interval.index == index) snapshot.intervals[i] = interval.totals;
  }
  RemoveEnded(now);
  for (const Request& entry : requests_) {
    snapshot.requests.push_back(entry.shown);
    snapshot.requests.back().idle = now - entry.last_served;
  }
  return snapshot;
}

}  // namespace bastion
