// The server returned within a second, but all attempts of the client failed within four. gRPC
// connects only while a thread of the process waits in it. A program that only calls bastion had no
// such thread between two attempts, and each attempt failed at once with the error of the first.
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>

#include "absl/time/clock.h"
#include "bastion/generation_client.h"
#include "gtest/gtest.h"
#include "tests/client/cpp/fake_server.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

// A server in another process, which comes late. The test's own process must have no server,
// because the threads of a server would wait in gRPC.
class LateServer {
 public:
  LateServer(const std::string& address, absl::Duration delay) : process_(fork()) {
    if (process_ != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    absl::SleepFor(delay);
    const testing::FakeServer server({testing::Answers({"one"})}, address);
    for (;;) pause();
  }
  ~LateServer() {
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }
  LateServer(const LateServer&) = delete;
  LateServer& operator=(const LateServer&) = delete;

 private:
  const pid_t process_;
};

TEST(ClientMissesReturnedServerTest, WhileNoOtherThreadWaitsInGrpc) {
  const testing::TempFolder folder;
  const std::string path = folder.File("server.sock");
  const LateServer server("unix:" + path, absl::Milliseconds(300));
  GenerationClient client("unix://" + path);
  std::string text;
  const absl::Status status =
      client.Generate({},
                      [&](const v1::GenerateResponse& event) {
                        text += event.delta().text();
                        return true;
                      },
                      {.retry = {.max_attempts = 5, .initial_backoff = absl::Milliseconds(250)}});
  EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(text, "one");
}

}  // namespace
}  // namespace bastion
