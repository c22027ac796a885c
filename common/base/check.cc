#include "common/base/check.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/log_writer.h"
#include "common/base/peer_text.h"

namespace bastion::base {
namespace {

// The time in a line has a fixed length.
std::string TimeText() {
  return absl::FormatTime("%m%d %H:%M:%E3S ", absl::Now(), absl::UTCTimeZone());
}

}  // namespace

LogLine::LogLine(Severity severity, const char* file, int line) : severity_(severity) {
  const char* base = std::strrchr(file, '/');
  stream_ << "IWEF"[static_cast<int>(severity)] << TimeText() << (base == nullptr ? file : base + 1)
          << ':' << line << "] ";
}

LogLine::~LogLine() {
  // What comes from peers or files must not break the line, or control a terminal.
  std::string text = PeerText(stream_.str(), std::string::npos);
  // The time of the event, not that when the caller began to compute what the line says.
  const std::string now = TimeText();
  text.replace(1, now.size(), now);
  text += '\n';
  const bool fatal = severity_ == Severity::kFatal;
  if (fatal) FlushLog();  // Makes room for the line.
  WriteLog(std::move(text));
  if (!fatal) return;
  FlushLog();
  std::abort();
}

}  // namespace bastion::base
