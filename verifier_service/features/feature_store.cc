#include "verifier_service/features/feature_store.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"

namespace bastion::verifier {
namespace {

std::string Name(SequenceId sequence) {
  std::ostringstream out;
  out << "sequence " << sequence;
  return out.str();
}

}  // namespace

void FeatureStore::Open(SequenceId sequence, int width) {
  {
    MutexLock lock(&mutex_);
    // Opening a later epoch of a session closes the earlier one, in the engine and here.
    for (auto old = histories_.begin(); old != histories_.end();) {
      const auto next = std::next(old);
      if (old->first.session == sequence.session) {
        bytes_ -= static_cast<int64_t>(old->second.features.bytes.size());
        histories_.erase(old);
      }
      old = next;
    }
    Features& features = histories_[sequence].features;
    features.width = width;
    features.type = type_;
  }
  NotifyListeners();
}

void FeatureStore::Append(SequenceId sequence, absl::Span<const char> rows, TokenId next,
                          std::optional<uint64_t> in_ring) {
  if (AppendRows(sequence, rows, next, in_ring)) NotifyListeners();
}

void FeatureStore::AddRingPiece(History& history, int rows, uint64_t position) const {
  std::deque<RingPiece>& pieces = history.in_ring;
  const auto overwritten = [&](const RingPiece& piece) {
    return !ring_->Holds(piece.position + (piece.rows - 1) * history.features.row_bytes());
  };
  while (!pieces.empty() && overwritten(pieces.front())) pieces.pop_front();
  pieces.push_back({history.features.rows(), rows, position});
}

bool FeatureStore::AppendRows(SequenceId sequence, absl::Span<const char> rows, TokenId next,
                              std::optional<uint64_t> in_ring) {
  MutexLock lock(&mutex_);
  const auto found = histories_.find(sequence);
  if (found == histories_.end() || found->second.dropped || found->second.features.width == 0) {
    return false;
  }
  Features& kept = found->second.features;
  CHECK_EQ(rows.size() % kept.row_bytes(), 0u) << "the bytes are not whole rows of features";
  const auto added = static_cast<int64_t>(rows.size());
  if (bytes_ + added > max_bytes_) {
    bytes_ -= static_cast<int64_t>(kept.bytes.size());
    kept.bytes = {};
    found->second.in_ring.clear();
    found->second.dropped = true;
    return true;
  }
  if (ring_ != nullptr && in_ring) {
    AddRingPiece(found->second, static_cast<int>(rows.size() / kept.row_bytes()), *in_ring);
  }
  kept.bytes.append(rows.data(), rows.size());
  kept.next = next;
  bytes_ += added;
  return true;
}

void FeatureStore::Close(SequenceId sequence) {
  {
    MutexLock lock(&mutex_);
    const auto found = histories_.find(sequence);
    if (found == histories_.end()) return;
    bytes_ -= static_cast<int64_t>(found->second.features.bytes.size());
    histories_.erase(found);
  }
  NotifyListeners();
}

std::shared_ptr<void> FeatureStore::Listen(std::function<void()> on_change) {
  MutexLock lock(&listeners_mutex_);
  const auto listener = listeners_.insert(listeners_.end(), std::move(on_change));
  return {this, [listener](FeatureStore* store) {
            MutexLock lock(&store->listeners_mutex_);
            store->listeners_.erase(listener);
          }};
}

void FeatureStore::NotifyListeners() {
  MutexLock lock(&listeners_mutex_);
  for (const auto& on_change : listeners_) on_change();
}

absl::Status FeatureStore::Check(SequenceId sequence) const {
  const auto found = histories_.find(sequence);
  if (found == histories_.end()) {
    return absl::NotFoundError(absl::StrCat("features: unknown ", Name(sequence)));
  }
  if (found->second.dropped) {
    return absl::OutOfRangeError(absl::StrCat(
        "features of ", Name(sequence), " were dropped to save memory; raise --feature_bytes"));
  }
  if (found->second.features.width == 0) {
    return absl::OutOfRangeError(
        absl::StrCat(Name(sequence), " was opened before any drafter requested features"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Features> FeatureStore::Read(const FeatureRange& range, absl::Duration timeout) {
  MutexLock lock(&mutex_);
  const auto is_ready = [&] {
    mutex_.AssertHeld();
    return !Check(range.sequence).ok() ||
           histories_.at(range.sequence).features.rows() >= range.first + range.count;
  };
  mutex_.AwaitWithTimeout(is_ready, timeout);
  RETURN_IF_ERROR(Check(range.sequence));
  const Features& kept = histories_.at(range.sequence).features;
  if (kept.rows() < range.first + range.count) {
    return absl::DeadlineExceededError(
        absl::StrCat("features of ", Name(range.sequence), ": timed out; the store has ",
                     kept.rows(), " rows, but ", range.first + range.count, " were requested"));
  }
  const size_t row = kept.row_bytes();
  const bool to_the_end = range.first + range.count == kept.rows();
  return Features{kept.width, kept.type, kept.bytes.substr(range.first * row, range.count * row),
                  to_the_end ? kept.next : kNoToken, /*device=*/{}};
}

absl::StatusOr<int> FeatureStore::Rows(SequenceId sequence) const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Check(sequence));
  return histories_.at(sequence).features.rows();
}

absl::StatusOr<FeatureStore::Copied> FeatureStore::Copy(SequenceId sequence, Position first,
                                                        size_t max_bytes, Place place) const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Check(sequence));
  const Features& kept = histories_.at(sequence).features;
  if (kept.rows() <= first) return Copied();
  const auto max_rows = static_cast<int>(std::max<size_t>(1, max_bytes / kept.row_bytes()));
  const int rows = std::min(kept.rows() - first, max_rows);
  std::memcpy(place(kept.type, rows, kept.width), kept.bytes.data() + first * kept.row_bytes(),
              rows * kept.row_bytes());
  return Copied{rows, first + rows == kept.rows() ? kept.next : kNoToken};
}

absl::StatusOr<FeatureStore::Located> FeatureStore::Locate(SequenceId sequence,
                                                           Position first) const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Check(sequence));
  const History& history = histories_.at(sequence);
  const Features& kept = history.features;
  // Search backward, because most readers want the last committed rows.
  for (auto last = history.in_ring.rbegin(); last != history.in_ring.rend(); ++last) {
    const RingPiece& piece = *last;
    const int skipped = first - piece.first;
    if (skipped < 0) continue;
    if (skipped >= piece.rows) break;
    const uint64_t position = piece.position + skipped * kept.row_bytes();
    if (!ring_->Holds(position)) break;
    const bool to_the_end = piece.first + piece.rows == kept.rows();
    return Located{piece.rows - skipped, position, kept.type, kept.width,
                   to_the_end ? kept.next : kNoToken};
  }
  return Located();
}

int64_t FeatureStore::bytes() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace bastion::verifier
