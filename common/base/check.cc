#include "common/base/check.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace bastion::base {

LogLine::LogLine(Severity severity, const char* file, int line) : severity_(severity) {
  const char* base = std::strrchr(file, '/');
  stream_ << "IWEF"[static_cast<int>(severity)]
          << absl::FormatTime("%m%d %H:%M:%E3S ", absl::Now(), absl::UTCTimeZone())
          << (base == nullptr ? file : base + 1) << ':' << line << "] ";
}

LogLine::~LogLine() {
  stream_ << '\n';
  const std::string line = stream_.str();
  // A failed write is ignored: the service must survive a closed console.
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
  if (severity_ == Severity::kFatal) std::abort();
}

}  // namespace bastion::base
