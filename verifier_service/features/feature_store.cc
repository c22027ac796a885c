#include "verifier_service/features/feature_store.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <sstream>
#include <utility>

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

void FeatureStore::History::CopyRows(Position first, int count, char* to) const {
  for (const Position end = first + count; first < end;) {
    const int skipped = first % kBlockRows;
    const int copied = std::min(kBlockRows - skipped, end - first);
    std::memcpy(to, blocks[first / kBlockRows]->data() + skipped * row_bytes, copied * row_bytes);
    to += copied * row_bytes;
    first += copied;
  }
}

void FeatureStore::Release(const Block& block) {
  if (block.use_count() == 1) bytes_ -= static_cast<int64_t>(block->size());
}

void FeatureStore::ReleaseBlocks(History& history) {
  for (const Block& block : history.blocks) Release(block);
  history.blocks.clear();
}

void FeatureStore::Drop(History& history) {
  ReleaseBlocks(history);
  history.rows = 0;
  history.in_ring.clear();
  history.dropped = true;
}

void FeatureStore::DropForRoom(History& history) {
  LOG(WARNING) << "dropped the features of " << history.rows << " tokens of a sequence, which is "
               << "decoded without drafts from now on; raise --feature_bytes";
  Drop(history);
}

std::pair<const SequenceId, FeatureStore::History>& FeatureStore::Longest() {
  return *std::max_element(histories_.begin(), histories_.end(), [](const auto& a, const auto& b) {
    return a.second.bytes() < b.second.bytes();
  });
}

bool FeatureStore::MakeRoom(int64_t bytes, History& history) {
  while (bytes_ + bytes > max_bytes_) {
    History& longest = Longest().second;
    if (longest.bytes() <= history.bytes()) {
      DropForRoom(history);
      return false;
    }
    DropForRoom(longest);
  }
  return true;
}

std::optional<SequenceId> FeatureStore::DropLongest() {
  std::optional<SequenceId> dropped;
  {
    MutexLock lock(&mutex_);
    if (histories_.empty()) return std::nullopt;
    auto& [sequence, history] = Longest();
    if (history.rows == 0) return std::nullopt;
    DropForRoom(history);
    dropped = sequence;
  }
  NotifyListeners();
  return dropped;
}

void FeatureStore::DropAll() {
  {
    MutexLock lock(&mutex_);
    for (auto& [sequence, history] : histories_) Drop(history);
  }
  NotifyListeners();
}

void FeatureStore::Open(SequenceId sequence, int width) {
  {
    MutexLock lock(&mutex_);
    // Opening a later epoch of a session closes the earlier one, in the engine and here.
    for (auto old = histories_.begin(); old != histories_.end();) {
      const auto next = std::next(old);
      if (old->first.session == sequence.session) {
        ReleaseBlocks(old->second);
        histories_.erase(old);
      }
      old = next;
    }
    History& history = histories_[sequence];
    history.width = width;
    history.row_bytes = Bytes(type_, width);
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
    return !ring_->Holds(piece.position + (piece.rows - 1) * history.row_bytes);
  };
  while (!pieces.empty() && overwritten(pieces.front())) pieces.pop_front();
  pieces.push_back({history.rows, rows, position});
}

bool FeatureStore::AppendRows(SequenceId sequence, absl::Span<const char> rows, TokenId next,
                              std::optional<uint64_t> in_ring) {
  MutexLock lock(&mutex_);
  const auto found = histories_.find(sequence);
  if (found == histories_.end() || found->second.dropped || found->second.width == 0) {
    return false;
  }
  History& history = found->second;
  CHECK_EQ(rows.size() % history.row_bytes, 0u) << "the bytes are not whole rows of features";
  const auto added = static_cast<int64_t>(rows.size());
  if (!MakeRoom(added, history)) return true;
  const auto count = static_cast<int>(rows.size() / history.row_bytes);
  if (ring_ != nullptr && in_ring) AddRingPiece(history, count, *in_ring);
  for (const size_t block_bytes = kBlockRows * history.row_bytes; !rows.empty();) {
    if (history.rows % kBlockRows == 0) history.blocks.push_back(std::make_shared<std::string>());
    std::string& block = *history.blocks.back();
    const size_t bytes = std::min(rows.size(), block_bytes - block.size());
    block.append(rows.data(), bytes);
    history.rows += static_cast<int>(bytes / history.row_bytes);
    rows.remove_prefix(bytes);
  }
  history.next = next;
  bytes_ += added;
  return true;
}

void FeatureStore::Close(SequenceId sequence) {
  {
    MutexLock lock(&mutex_);
    const auto found = histories_.find(sequence);
    if (found == histories_.end()) return;
    ReleaseBlocks(found->second);
    histories_.erase(found);
  }
  NotifyListeners();
}

void FeatureStore::Keep(SequenceId sequence, int index, int32_t page) {
  MutexLock lock(&mutex_);
  const auto found = histories_.find(sequence);
  CHECK(found != histories_.end() && found->second.rows >= (index + 1) * kBlockRows);
  Block& kept = kept_[page];
  Release(std::exchange(kept, found->second.blocks[index]));
}

void FeatureStore::Share(SequenceId sequence, absl::Span<const int32_t> pages) {
  {
    MutexLock lock(&mutex_);
    const auto found = histories_.find(sequence);
    CHECK(found != histories_.end() && found->second.rows == 0);
    for (const int32_t page : pages) found->second.blocks.push_back(kept_.at(page));
    found->second.rows = static_cast<int>(pages.size()) * kBlockRows;
  }
  NotifyListeners();
}

void FeatureStore::Forget(int32_t page) {
  MutexLock lock(&mutex_);
  const auto found = kept_.find(page);
  if (found == kept_.end()) return;
  Release(found->second);
  kept_.erase(found);
}

bool FeatureStore::Fits(size_t bytes) const {
  MutexLock lock(&mutex_);
  return bytes_ + static_cast<int64_t>(bytes) <= max_bytes_;
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
  if (found->second.width == 0) {
    return absl::OutOfRangeError(
        absl::StrCat(Name(sequence), " was opened before any drafter requested features"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Features> FeatureStore::Read(const FeatureRange& range, absl::Duration timeout) {
  const Position end = range.first + range.count;
  MutexLock lock(&mutex_);
  const auto is_ready = [&] {
    mutex_.AssertHeld();
    return !Check(range.sequence).ok() || histories_.at(range.sequence).rows >= end;
  };
  mutex_.AwaitWithTimeout(is_ready, timeout);
  RETURN_IF_ERROR(Check(range.sequence));
  const History& history = histories_.at(range.sequence);
  if (history.rows < end) {
    return absl::DeadlineExceededError(absl::StrCat("features of ", Name(range.sequence),
                                                    ": timed out; the store has ", history.rows,
                                                    " rows, but ", end, " were requested"));
  }
  Features read = {history.width, type_, std::string(range.count * history.row_bytes, '\0'),
                   history.NextAt(end), /*device=*/{}};
  history.CopyRows(range.first, range.count, read.bytes.data());
  return read;
}

absl::StatusOr<int> FeatureStore::Rows(SequenceId sequence) const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Check(sequence));
  return histories_.at(sequence).rows;
}

absl::StatusOr<FeatureStore::Copied> FeatureStore::Copy(SequenceId sequence, Position first,
                                                        Position end, size_t max_bytes,
                                                        Place place) const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Check(sequence));
  const History& history = histories_.at(sequence);
  end = std::min(end, history.rows);
  if (end <= first) return Copied();
  const auto max_rows = static_cast<int>(std::max<size_t>(1, max_bytes / history.row_bytes));
  const int rows = std::min(end - first, max_rows);
  history.CopyRows(first, rows, place(type_, rows, history.width));
  return Copied{rows, history.NextAt(first + rows)};
}

absl::StatusOr<FeatureStore::Located> FeatureStore::Locate(SequenceId sequence, Position first,
                                                           Position end) const {
  MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Check(sequence));
  if (end <= first) return Located();
  const History& history = histories_.at(sequence);
  // Search backward, because most readers want the last committed rows.
  for (auto last = history.in_ring.rbegin(); last != history.in_ring.rend(); ++last) {
    const RingPiece& piece = *last;
    const int skipped = first - piece.first;
    if (skipped < 0) continue;
    if (skipped >= piece.rows) break;
    const uint64_t position = piece.position + skipped * history.row_bytes;
    if (!ring_->Holds(position)) break;
    const int rows = std::min(piece.rows - skipped, end - first);
    return Located{rows, position, type_, history.width, history.NextAt(first + rows)};
  }
  return Located();
}

int64_t FeatureStore::bytes() const {
  MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace bastion::verifier
