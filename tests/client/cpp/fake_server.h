// FakeServer: a generation service in this process, whose calls do what a test says. Thread-safe.
#ifndef BASTION_TESTS_CLIENT_CPP_FAKE_SERVER_H_
#define BASTION_TESTS_CLIENT_CPP_FAKE_SERVER_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/time/time.h"
#include "bastion/v1/generation.grpc.pb.h"
#include "common/base/mutex.h"

namespace bastion::testing {

using Writer = grpc::ServerWriter<v1::GenerateResponse>;
// What a call of Generate does. Writes the events and returns the status.
using Script = std::function<grpc::Status(grpc::ServerContext&, Writer&)>;

// A call that has arrived.
struct ArrivedCall {
  v1::GenerateRequest request;
  std::map<std::string, std::string> metadata = {};
  absl::Duration arrival;    // On Clock::Real().
  absl::Duration time_left;  // Until its deadline.
};

class FakeServer {
 public:
  // Serves `address`. The first call of Generate follows the first script, and so on; further calls
  // follow the last one.
  explicit FakeServer(std::vector<Script> scripts, const std::string& address = "127.0.0.1:0");
  ~FakeServer();

  // Where clients reach it. REQUIRES: `address` was a port.
  [[nodiscard]] std::string endpoint() const;
  [[nodiscard]] std::vector<ArrivedCall> calls() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until `count` calls have seen that the client canceled them; false after 20 seconds.
  [[nodiscard]] bool AwaitCanceled(int count) ABSL_LOCKS_EXCLUDED(mutex_);
  void SetHealthy(bool healthy) { server_->GetHealthCheckService()->SetServingStatus(healthy); }

 private:
  class Service;

  mutable Mutex mutex_;
  std::vector<ArrivedCall> calls_ ABSL_GUARDED_BY(mutex_);
  int canceled_ ABSL_GUARDED_BY(mutex_) = 0;
  const std::vector<Script> scripts_;
  int port_ = 0;
  std::unique_ptr<Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

[[nodiscard]] v1::GenerateResponse StartedEvent();
[[nodiscard]] v1::GenerateResponse DeltaEvent(const std::string& text);

// Scripts. The first one sends a whole answer with these texts.
[[nodiscard]] Script Answers(std::vector<std::string> texts);
// Sends Started, then fails.
[[nodiscard]] Script FailsAfterStarted(grpc::Status status);
// Sends Started and one text, then waits until the client cancels the call.
[[nodiscard]] Script WaitsForCancel();

}  // namespace bastion::testing

#endif  // BASTION_TESTS_CLIENT_CPP_FAKE_SERVER_H_
