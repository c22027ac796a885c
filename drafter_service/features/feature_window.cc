#include "drafter_service/features/feature_window.h"

#include <algorithm>
#include <utility>

namespace bastion::drafter {
namespace {

// Pieces of this size are not joined with others, so that no copy is long.
constexpr size_t kPieceBytes = size_t{4} << 20;

// True if `next` directly follows `last`: both are bytes, or both are in the same ring.
bool Continues(const Features& last, const Features& next) {
  if (last.width != next.width || last.type != next.type) return false;
  if (!last.on_device() || !next.on_device()) {
    return !last.on_device() && !next.on_device() && last.bytes.size() < kPieceBytes;
  }
  const uint64_t bytes = last.rows() * last.row_bytes();
  return last.device.ring == next.device.ring &&
         last.device.position + bytes == next.device.position &&
         last.device.data() + bytes == next.device.data();
}

}  // namespace

void FeatureWindow::Append(Features features) {
  rows += features.rows();
  if (pieces.empty() || !Continues(pieces.back(), features)) {
    pieces.push_back(std::move(features));
  } else if (features.on_device()) {
    pieces.back().device.rows += features.rows();
  } else {
    pieces.back().bytes += features.bytes;
  }
}

int FeatureWindow::RowsAsBytes() const {
  int rows = 0;
  for (const Features& piece : pieces) {
    if (piece.on_device()) break;
    rows += piece.rows();
  }
  return rows;
}

Features FeatureWindow::PopBytes(int count) {
  Features read = Pop(count);
  while (read.rows() < count) read.bytes += Pop(count - read.rows()).bytes;
  return read;
}

Features FeatureWindow::Pop(int count) {
  Features& piece = pieces.front();
  const int popped = std::min(count, piece.rows());
  first += popped;
  rows -= popped;
  Features read = {piece.width, piece.type, {}};
  if (popped == piece.rows()) {
    read = std::move(piece);
    pieces.pop_front();
  } else if (piece.on_device()) {
    read.device = piece.device;
    read.device.rows = popped;
    piece.device.position += popped * piece.row_bytes();
    piece.device.rows -= popped;
  } else {
    read.bytes = piece.bytes.substr(0, popped * piece.row_bytes());
    piece.bytes.erase(0, read.bytes.size());
  }
  return read;
}

}  // namespace bastion::drafter
