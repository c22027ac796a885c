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

constexpr char kTimeFormat[] = "%m%d %H:%M:%E3S ";
constexpr char kTimeRoom[] = "                  ";  // As long as a time in that format.

}  // namespace

LogLine::LogLine(Severity severity, const char* file, int line) : severity_(severity) {
  const char* base = std::strrchr(file, '/');
  stream_ << "IWEF"[static_cast<int>(severity)] << kTimeRoom << (base == nullptr ? file : base + 1)
          << ':' << line << "] ";
}

LogLine::~LogLine() {
  // What comes from peers or files must not break the line, or control a terminal.
  std::string text = PeerText(stream_.str(), std::string::npos);
  // The time of the event, not that when the caller began to compute what the line says.
  text.replace(1, std::strlen(kTimeRoom),
               absl::FormatTime(kTimeFormat, absl::Now(), absl::UTCTimeZone()));
  text += '\n';
  const bool fatal = severity_ == Severity::kFatal;
  if (fatal) FlushLog();  // Makes room for the line.
  WriteLog(std::move(text));
  if (!fatal) return;
  FlushLog();
  std::abort();
}

}  // namespace bastion::base
