// The end of the services: bounded, in order, and never by a crash.
#include <gmock/gmock.h>

#include <fstream>

#include "tests/faults/faults_fixture.h"

namespace bastion {
namespace {

using testing::FaultsTest;
using testing::RunningAnswer;
using testing::ServiceProcess;
using testing::ServiceSystem;

class StopTest : public FaultsTest {};

TEST_F(StopTest, AnOrchestratorWhoseVerifierHangsEndsInOrderAfterItsGrace) {
  ServiceSystem& system = StartServices({"--grace=1s"});
  RunningAnswer answer(system, Request("ar", 1500));
  ASSERT_TRUE(answer.AwaitCycles(3));
  system.verifier->Signal(SIGSTOP);
  StopWatch watch;
  system.orchestrator->Signal(SIGTERM);
  EXPECT_EQ(system.orchestrator->Wait(), 0);
  EXPECT_LT(watch.Lap(), absl::Seconds(5));
  EXPECT_FALSE(answer.Wait().status.ok());
  system.verifier->Signal(SIGCONT);
}

TEST_F(StopTest, ASecondSignalEndsTheProcessAtOnce) {
  ServiceSystem& system = StartServices({"--grace=60s"});
  RunningAnswer answer(system, Request("ar", 2000));
  ASSERT_TRUE(answer.AwaitCycles(3));
  system.verifier->Signal(SIGSTOP);  // The answer does not end.
  system.orchestrator->Signal(SIGTERM);
  absl::SleepFor(absl::Milliseconds(300));
  StopWatch watch;
  system.orchestrator->Signal(SIGTERM);
  EXPECT_EQ(system.orchestrator->Wait(), 128 + SIGTERM);
  EXPECT_LT(watch.Lap(), absl::Seconds(2));
  system.verifier->Signal(SIGCONT);
}

TEST_F(StopTest, ASecondInstanceDoesNotTakeTheSocketOfTheFirst) {
  ServiceSystem& system = StartServices();
  const testing::TempFolder folder;
  const std::string log = folder.File("second.log");
  ServiceProcess second("bastion-verifier",
                        {"--target=" + kModels + "/target", "--weights=fp32",
                         "--listen=" + system.Address("verifier")},
                        log);
  EXPECT_EQ(second.Wait(), 1);
  std::ifstream file(log);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  EXPECT_THAT(text, ::testing::HasSubstr("another process listens on"));
  EXPECT_TRUE(Generate(system.client(), Request("ar", 10)).status.ok());
}

TEST_F(StopTest, SigpipeIsIgnored) {
  ServiceSystem& system = StartServices();
  for (const ServiceProcess* process :
       {system.verifier.get(), system.drafter.get(), system.orchestrator.get()}) {
    process->Signal(SIGPIPE);
  }
  EXPECT_TRUE(Generate(system.client(), Request("default", 20)).status.ok());
}

}  // namespace
}  // namespace bastion
