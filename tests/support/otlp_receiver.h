// OtlpReceiver: a small OpenTelemetry collector for tests. It keeps the spans that services send,
// or misbehaves.
#ifndef BASTION_TESTS_SUPPORT_OTLP_RECEIVER_H_
#define BASTION_TESTS_SUPPORT_OTLP_RECEIVER_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace bastion::testing {

struct ReceivedSpan {
  std::string service;  // The resource attribute service.name.
  std::string trace, id, parent;
  std::string trace_state;
  std::string name;
  int64_t start = 0, end = 0;  // Nanoseconds since 1970.
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  std::vector<std::string> links;  // Ids of spans.
  bool failed = false;

  [[nodiscard]] int64_t duration() const { return end - start; }
};

class OtlpReceiver {
 public:
  enum class Behavior { kAccept, kFail, kHang, kDiscard };

  OtlpReceiver();
  ~OtlpReceiver();

  // "http://127.0.0.1:PORT"
  [[nodiscard]] std::string address() const;
  void Behave(Behavior behavior);
  // All spans so far.
  [[nodiscard]] std::vector<ReceivedSpan> spans() const;
  // Waits until `condition` holds for the spans so far; false after 30 seconds.
  bool Await(absl::FunctionRef<bool(const std::vector<ReceivedSpan>&)> condition) const;

 private:
  class Service;
  std::unique_ptr<Service> service_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_SUPPORT_OTLP_RECEIVER_H_
