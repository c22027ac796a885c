#include "common/base/check.h"

#include <cstdlib>
#include <cstring>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/log_writer.h"

namespace bastion::base {

LogLine::LogLine(Severity severity, const char* file, int line) : severity_(severity) {
  const char* base = std::strrchr(file, '/');
  stream_ << "IWEF"[static_cast<int>(severity)]
          << absl::FormatTime("%m%d %H:%M:%E3S ", absl::Now(), absl::UTCTimeZone())
          << (base == nullptr ? file : base + 1) << ':' << line << "] ";
}

LogLine::~LogLine() {
  stream_ << '\n';
  const bool fatal = severity_ == Severity::kFatal;
  if (fatal) FlushLog();  // Makes room for the line.
  WriteLog(stream_.str());
  if (!fatal) return;
  FlushLog();
  std::abort();
}

}  // namespace bastion::base
