#include "orchestrator/profile/verify_profile.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/progress.h"
#include "common/base/random.h"
#include "common/base/status.h"
#include "orchestrator/profile/batch_profile.h"
#include "orchestrator/profile/expert_profile.h"
#include "orchestrator/profile/profile_file.h"
#include "orchestrator/profile/random_tree.h"
#include "orchestrator/profile/yielding_verifier.h"

namespace bastion {
namespace {

// The distinct values of `wanted`, in ascending order. Values above `max` become `max`; values
// below 1 are dropped.
std::vector<int> Clipped(const std::vector<int>& wanted, int max) {
  std::set<int> clipped;
  for (const int value : wanted) clipped.insert(std::min(value, max));
  clipped.erase(clipped.begin(), clipped.lower_bound(1));
  return {clipped.begin(), clipped.end()};
}

// The number of tokens by which a sequence may exceed its nominal context before it is reopened.
// One eighth does not visibly change the verify time.
int Slack(int context) { return std::max(4, context / 8); }

// A random sequence whose length stays near one nominal context.
class ProfileSequence {
 public:
  ProfileSequence(Verifier& verifier, uint64_t session, int context, int vocabulary)
      : verifier_(verifier), id_{session, 0}, context_(context), vocabulary_(vocabulary) {}
  ~ProfileSequence() {
    if (open_) verifier_.Close(id_);
  }
  ProfileSequence(const ProfileSequence&) = delete;
  ProfileSequence& operator=(const ProfileSequence&) = delete;

  // Verifies a random tree of `rows` rows. Returns the verifier's own time and the round trip,
  // without time in the queue.
  absl::StatusOr<ProfilePoint> Measure(int rows, const Clock& clock) {
    RETURN_IF_ERROR(EnsureOpen());
    const DraftTree tree = RandomTree(rows, vocabulary_, ++trees_);
    const Forest forest = {{id_, cached_, tree}};
    StopWatch watch(clock);
    ASSIGN_OR_RETURN(const VerifyResult result, verifier_.Verify(forest, {}));
    const absl::Duration round_trip = watch.Lap() - result.trace.queue;
    if (result.outcomes.size() != 1) {
      return absl::InternalError(
          absl::StrCat("the verifier returned ", result.outcomes.size(), " outcomes for 1 tree"));
    }
    RETURN_IF_ERROR(result.outcomes[0].status);
    const absl::Duration verify = result.trace.verify();
    if (verify <= absl::ZeroDuration()) {
      return absl::InternalError("the verifier's timing trace is empty");
    }
    cached_ += result.outcomes[0].acceptance.committed_length();
    ProfilePoint point = {rows, context_, absl::ToDoubleSeconds(verify)};
    point.round_trip_seconds = absl::ToDoubleSeconds(round_trip);
    point.experts = result.trace.experts;
    return point;
  }

 private:
  absl::Status EnsureOpen() {
    if (open_ && cached_ <= context_ + Slack(context_)) return absl::OkStatus();
    if (std::exchange(open_, false)) {
      verifier_.Close(id_);
      ++id_.epoch;
    }
    RETURN_IF_ERROR(verifier_.Open(id_, SamplingParams()));
    open_ = true;
    PrefillItem prompt{id_, 0, {}};
    for (int i = 0; i < context_; ++i) {
      prompt.tokens.push_back(RandomToken(id_.session, static_cast<uint32_t>(i), vocabulary_));
    }
    RETURN_IF_ERROR(verifier_.Prefill(prompt).status());
    cached_ = context_;
    return absl::OkStatus();
  }

  Verifier& verifier_;
  SequenceId id_;
  const int context_;
  const int vocabulary_;
  bool open_ = false;
  Position cached_ = 0;
  uint64_t trees_ = 0;
};

// One profile point and the times of its repetitions.
struct Samples {
  int rows = 0;
  int context = 0;
  ProfileSequence* sequence = nullptr;
  std::vector<double> seconds = {};
  std::vector<double> transfers = {};  // What the round trips took beyond these times.
  double experts = 0;                  // Mean.

  absl::Status Measure(const Clock& clock) {
    absl::StatusOr<ProfilePoint> measured = sequence->Measure(rows, clock);
    if (!measured.ok()) {
      return Annotate(measured.status(),
                      absl::StrCat("profile at ", rows, " rows, context ", context));
    }
    seconds.push_back(measured->seconds);
    transfers.push_back(measured->round_trip_seconds - measured->seconds);
    experts += (measured->experts - experts) / static_cast<double>(seconds.size());
    return absl::OkStatus();
  }
  void DiscardTimes() {
    seconds.clear();
    transfers.clear();
  }
  // True if this point needs no more repetitions.
  [[nodiscard]] bool HasEnough() const {
    constexpr double kEnoughSeconds = 0.02;
    if (seconds.size() < 2) return false;
    // Counts every repetition as the fastest one, so that a single stalled repetition does not
    // reach the threshold.
    const double fastest = *std::min_element(seconds.begin(), seconds.end());
    return fastest * static_cast<double>(seconds.size()) >= kEnoughSeconds;
  }
  // The fastest repetition is the one that no neighbor disturbed. The estimators learn from the
  // calls that follow how slow the device usually is. What counts here are the ratios of points.
  [[nodiscard]] ProfilePoint Point() const {
    const double fastest = *std::min_element(seconds.begin(), seconds.end());
    return {rows, context, fastest, fastest + Median(transfers), /*interpolated=*/false, experts};
  }
};

// Tokens that each of `sequences` sequences may have while all are open.
int TokensPerSequence(const TargetInfo& target, size_t sequences) {
  if (target.page_tokens <= 0 || sequences == 0) return target.max_context;
  const int pages = target.kv_tokens / target.page_tokens / static_cast<int>(sequences);
  return std::min(target.max_context, pages * target.page_tokens);
}

// The most rows to measure.
int MaxRows(const TargetInfo& target, const ProfileOptions& options) {
  const int max_tokens = TokensPerSequence(target, options.contexts.size());
  return std::min({target.max_rows, target.dims.vocabulary, std::max(1, max_tokens / 2)});
}

// The points to measure, in this order, within the limits of `target`. Empty if none fits.
std::vector<Samples> MakePlan(const TargetInfo& target, const ProfileOptions& options) {
  const int max_rows = MaxRows(target, options);
  const std::vector<int> rows = Clipped(options.row_counts, max_rows);
  // A sequence may exceed its nominal context by the slack, and one more tree must fit after it.
  const int room = TokensPerSequence(target, options.contexts.size()) - max_rows;
  const std::vector<int> contexts = Clipped(options.contexts, room - Slack(room));
  const auto is_shared = [&](int row_count) {
    const std::vector<int>& shared = options.shared_row_counts;
    return row_count == rows.front() || row_count == rows.back() ||
           std::find(shared.begin(), shared.end(), row_count) != shared.end();
  };
  std::vector<Samples> plan;
  for (const int context : contexts) {
    for (const int row_count : rows) {
      if (is_shared(row_count)) plan.push_back({row_count, context});
    }
    if (context != contexts.front()) continue;
    for (const int row_count : rows) {
      if (!is_shared(row_count)) plan.push_back({row_count, context});
    }
  }
  return plan;
}

// Sorts the points by context. Row counts alternately rise and fall from context to context, so
// that consecutive points are similar.
void ArrangeAsPath(std::vector<Samples>& points) {
  std::sort(points.begin(), points.end(), [](const Samples& a, const Samples& b) {
    return std::tie(a.context, a.rows) < std::tie(b.context, b.rows);
  });
  bool down = false;
  for (auto first = points.begin(); first != points.end(); down = !down) {
    const auto last = std::find_if(
        first, points.end(), [&](const Samples& point) { return point.context != first->context; });
    if (down) std::reverse(first, last);
    first = last;
  }
}

// One profile of one verifier.
class Profiler {
 public:
  // `points` are from MakePlan. REQUIRES: `points` is not empty.
  Profiler(Verifier& verifier, const TargetInfo& target, const Clock& clock,
           const ProfileOptions& options, std::vector<Samples> points)
      : verifier_(verifier),
        target_(target),
        clock_(clock),
        options_(options),
        points_(std::move(points)),
        start_(clock.Now()) {}

  absl::StatusOr<LatencyProfile> Run();

 private:
  [[nodiscard]] absl::Duration elapsed() const { return clock_.Now() - start_; }
  // True if `seconds` more keep the first round within its half of the time limit.
  [[nodiscard]] bool HasTimeFor(double seconds) const {
    return options_.time_limit == absl::ZeroDuration() ||
           2 * (elapsed() + absl::Seconds(seconds)) <= options_.time_limit;
  }
  // Opens a sequence for every context of points_.
  void MakeSequences();
  absl::Status Measure(Samples& point);
  // The first round. It warms up caches and threads. Its times count only if there is no other.
  absl::Status WarmUp();
  // Appends a warmed-up point like `like`, with `rows` rows.
  absl::Status AddPoint(int rows, const Samples& like);
  // Adds the further row counts, as long as rows are cheap.
  absl::Status AddFurther();
  absl::Status Repeat();
  // All points that have times.
  [[nodiscard]] LatencyProfile Table() const;

  Verifier& verifier_;
  const TargetInfo& target_;
  const Clock& clock_;
  const ProfileOptions& options_;
  std::vector<Samples> points_;
  const absl::Duration start_;
  std::map<int, ProfileSequence> sequences_;  // By context.
  int done_ = 0;                              // Verifies, for the progress.
};

void Profiler::MakeSequences() {
  for (Samples& point : points_) {
    const uint64_t session = options_.session + sequences_.size();
    const auto [place, is_new] = sequences_.try_emplace(point.context, verifier_, session,
                                                        point.context, target_.dims.vocabulary);
    point.sequence = &place->second;
  }
}

absl::Status Profiler::Measure(Samples& point) {
  if (!point.HasEnough()) {
    RETURN_IF_ERROR(point.Measure(clock_));
  }
  const int total = static_cast<int>(points_.size()) * (options_.repetitions + 1);
  if (options_.progress) options_.progress(++done_, total);
  return absl::OkStatus();
}

absl::Status Profiler::WarmUp() {
  for (Samples& point : points_) {
    const bool late = options_.time_limit > absl::ZeroDuration() && elapsed() > options_.time_limit;
    if (late && !points_.front().seconds.empty()) break;
    RETURN_IF_ERROR(Measure(point));
  }
  return absl::OkStatus();
}

absl::Status Profiler::AddPoint(int rows, const Samples& like) {
  points_.push_back({rows, like.context, like.sequence});
  return Measure(points_.back());
}

absl::Status Profiler::AddFurther() {
  if (points_.back().seconds.empty()) return absl::OkStatus();  // There was no time for all points.
  const auto by_size = [](const Samples& a, const Samples& b) {
    return std::tie(a.context, b.rows) < std::tie(b.context, a.rows);
  };
  // The first context, at its most rows.
  Samples last = *std::min_element(points_.begin(), points_.end(), by_size);
  std::vector<int> further = Clipped(options_.further_row_counts, MaxRows(target_, options_));
  std::erase_if(further, [&](int rows) { return rows <= last.rows; });
  if (further.empty()) return absl::OkStatus();
  // The very first verify was the slowest.
  Samples& one_row = points_.front();
  RETURN_IF_ERROR(one_row.Measure(clock_));
  const double longest = options_.cheap_ratio * one_row.Point().seconds;
  const size_t before = points_.size();
  for (const int rows : further) {
    const double seconds = last.seconds.front();
    // Every context is measured at the most rows, so there must be time for all of them.
    const double expected = seconds * rows / last.rows * static_cast<double>(sequences_.size());
    if (seconds > longest || !HasTimeFor(expected)) break;
    RETURN_IF_ERROR(AddPoint(rows, last));
    last = points_.back();
  }
  if (points_.size() == before) return absl::OkStatus();
  std::map<int, Samples> others;  // By context: any point of it.
  for (const Samples& point : points_) {
    if (point.context != last.context) others.try_emplace(point.context, point);
  }
  for (const auto& [context, point] : others) {
    RETURN_IF_ERROR(AddPoint(last.rows, point));
  }
  return absl::OkStatus();
}

absl::Status Profiler::Repeat() {
  for (Samples& point : points_) point.DiscardTimes();
  ArrangeAsPath(points_);
  for (int repetition = 0; repetition < options_.repetitions; ++repetition) {
    if (repetition > 0 && elapsed() > options_.time_limit) break;
    for (Samples& point : points_) {
      RETURN_IF_ERROR(Measure(point));
    }
    std::reverse(points_.begin(), points_.end());  // Consecutive points stay similar in size.
  }
  return absl::OkStatus();
}

LatencyProfile Profiler::Table() const {
  LatencyProfile measured;
  for (const Samples& point : points_) {
    if (!point.seconds.empty()) measured.points.push_back(point.Point());
  }
  return FillGrid(measured);
}

absl::StatusOr<LatencyProfile> Profiler::Run() {
  MakeSequences();
  RETURN_IF_ERROR(WarmUp());
  RETURN_IF_ERROR(AddFurther());
  if (2 * elapsed() <= options_.time_limit) {
    RETURN_IF_ERROR(Repeat());
  }
  return Table();
}

}  // namespace

absl::StatusOr<LatencyProfile> MeasureProfile(Verifier& verifier, const Clock& clock,
                                              const ProfileOptions& options) {
  ASSIGN_OR_RETURN(const TargetInfo target, verifier.Info());
  std::vector<Samples> points = MakePlan(target, options);
  if (points.empty() || options.repetitions < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("profile: nothing to measure within ", target.max_rows, " rows, ",
                     target.max_context, " tokens of context, a KV cache of ", target.kv_tokens,
                     " tokens and ", options.repetitions, " repetitions"));
  }
  return Profiler(verifier, target, clock, options, std::move(points)).Run();
}

absl::StatusOr<LatencyProfile> MeasureProfileWithBar(Verifier& verifier, const std::string& what,
                                                     ProfileOptions options) {
  ASSIGN_OR_RETURN(const TargetInfo target, verifier.Info());
  if (!options.file.empty() && std::filesystem::exists(options.file)) {
    return ReadProfile(options.file, target);
  }
  ProgressBar bar(what);
  options.progress = [&](int done, int total) { bar.Show(done, total); };
  YieldingVerifier yielding(&verifier);
  ASSIGN_OR_RETURN(LatencyProfile table, MeasureProfile(yielding, Clock::Real(), options));
  const BatchProfileOptions batch = {.time_limit = options.time_limit / 10,
                                     .session = options.session + options.contexts.size()};
  ASSIGN_OR_RETURN(table.sequence_seconds, MeasureSequenceSeconds(yielding, Clock::Real(), batch));
  if (table.has_experts()) {
    const ExpertProfileOptions own = {.time_limit = batch.time_limit, .session = batch.session};
    ASSIGN_OR_RETURN(table.expert_seconds, MeasureExpertSeconds(yielding, Clock::Real(), own));
  }
  table.peaks = target.peaks;
  if (options.file.empty()) return table;
  const absl::Status written = WriteProfile(options.file, {target, table});
  if (!written.ok()) LOG(ERROR) << "the next start profiles again: " << written;
  return table;
}

}  // namespace bastion
