// CHECK and LOG.
// CHECK aborts the process: use it only for conditions whose failure means a bug in this code. For
// an error that a client, a peer or a file can cause, return an absl::Status. LOG writes one line
// to stderr, with one write(2); services queue it first (log_writer.h). Thread-safe.
#ifndef BASTION_COMMON_BASE_CHECK_H_
#define BASTION_COMMON_BASE_CHECK_H_

#include <sstream>

namespace bastion::base {

enum class Severity { kInfo, kWarning, kError, kFatal };

// A log line. The destructor writes it, with the time of that moment and with control characters
// escaped, and for kFatal aborts the process.
class LogLine {
 public:
  LogLine(Severity severity, const char* file, int line);
  ~LogLine();
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  std::ostream& stream() { return stream_; }

 private:
  Severity severity_;
  std::ostringstream stream_;
};

}  // namespace bastion::base

#define BASTION_LOG_INFO \
  ::bastion::base::LogLine(::bastion::base::Severity::kInfo, __FILE__, __LINE__)
#define BASTION_LOG_WARNING \
  ::bastion::base::LogLine(::bastion::base::Severity::kWarning, __FILE__, __LINE__)
#define BASTION_LOG_ERROR \
  ::bastion::base::LogLine(::bastion::base::Severity::kError, __FILE__, __LINE__)
#define BASTION_LOG_FATAL \
  ::bastion::base::LogLine(::bastion::base::Severity::kFatal, __FILE__, __LINE__)

// Usage: LOG(INFO) << "…". Severities: INFO, WARNING, ERROR, FATAL.
#define LOG(severity) BASTION_LOG_##severity.stream()

#define CHECK(condition)      \
  if (condition) [[likely]] { \
  } else                      \
    LOG(FATAL) << "CHECK failed: " #condition " "
#define CHECK_EQ(a, b) CHECK((a) == (b)) << (a) << " vs " << (b) << " "
#define CHECK_LE(a, b) CHECK((a) <= (b)) << (a) << " vs " << (b) << " "
#define CHECK_LT(a, b) CHECK((a) < (b)) << (a) << " vs " << (b) << " "
#define CHECK_GE(a, b) CHECK((a) >= (b)) << (a) << " vs " << (b) << " "
#define CHECK_GT(a, b) CHECK((a) > (b)) << (a) << " vs " << (b) << " "

#ifdef NDEBUG
#define DCHECK(condition) CHECK(true || (condition))
#else
#define DCHECK(condition) CHECK(condition)
#endif

#endif  // BASTION_COMMON_BASE_CHECK_H_
