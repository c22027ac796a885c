#include "common/base/progress.h"

#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <utility>

namespace bastion {

ProgressBar::ProgressBar(std::string label, const std::string& unit)
    : label_(std::move(label)),
      unit_(unit.empty() ? "" : " " + unit),
      terminal_(isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  std::fprintf(stderr, "%s%s: %" PRId64 " of %" PRId64 "%s\n", terminal_ ? "\r\033[K" : "",
               label_.c_str(), done_, total_, unit_.c_str());
}

void ProgressBar::Show(int64_t done, int64_t total) {
  done_ = done;
  total_ = total;
  if (!terminal_ || total <= 0) return;
  constexpr int kWidth = 30;
  const auto filled = static_cast<size_t>(kWidth * done / total);
  std::fprintf(stderr, "\r\033[K%s [%s%s] %" PRId64 "/%" PRId64 "%s", label_.c_str(),
               std::string(filled, '#').c_str(), std::string(kWidth - filled, ' ').c_str(), done,
               total, unit_.c_str());
}

}  // namespace bastion
