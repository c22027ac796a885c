// LogWriter: writes the lines of LOG on a separate thread. A pipe that is not read, or a disk
// that hangs, then holds up no other thread. (A pipe must not be made non-blocking instead: its
// mode is shared with the processes that inherited it.)
//
// Lines wait in a bounded queue. While it is full, new lines are dropped; the next line says how
// many. Without a LogWriter, LOG writes its lines itself. Thread-safe.
#ifndef BASTION_COMMON_BASE_LOG_WRITER_H_
#define BASTION_COMMON_BASE_LOG_WRITER_H_

#include <string>

#include "absl/time/time.h"

namespace bastion::base {

class LogWriter {
 public:
  // Starts the thread. At most one LogWriter may exist at a time.
  LogWriter();
  // Waits for the queue to be written, but no longer than FlushLog(). Afterwards, LOG writes its
  // lines itself, unless the queue could not be written: then it drops them.
  ~LogWriter();
  LogWriter(const LogWriter&) = delete;
  LogWriter& operator=(const LogWriter&) = delete;
};

// How long the end of the process waits for the reader of its log.
inline constexpr absl::Duration kLogFlushLimit = absl::Seconds(1);

// Writes `line`, which ends with a newline, to stderr or to the queue.
void WriteLog(std::string line);

// Waits until all lines are written, for at most kLogFlushLimit. Call it before the process ends
// without destructors.
void FlushLog();

}  // namespace bastion::base

#endif  // BASTION_COMMON_BASE_LOG_WRITER_H_
