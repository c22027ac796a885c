// `bastionctl doctor` and the real bastion-verifier, on the same broken checkpoint.
#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"

namespace bastion {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int exit_status = 0;
  std::string output;  // stdout and stderr.
};

Outcome RunProgram(const std::string& arguments) {
  FILE* const pipe =
      popen((std::string(BASTION_BINARY_DIR) + "/bin/" + arguments + " 2>&1").c_str(), "r");
  Outcome outcome;
  std::array<char, 4096> buffer;
  while (const size_t count = fread(buffer.data(), 1, buffer.size(), pipe)) {
    outcome.output.append(buffer.data(), count);
  }
  outcome.exit_status = WEXITSTATUS(pclose(pipe));
  return outcome;
}

TEST(DoctorProgram, SaysWhatTheVerifierSaysAboutABrokenCheckpoint) {
  const testing::TempFolder folder;
  const std::string target = folder.File("target");
  std::filesystem::copy(testing::GoldenFolder("gqa1_tied_draft1") + "/target", target);
  std::ofstream(target + "/config.json") << R"({"architectures": ["GPT2LMHeadModel"]})";

  const Outcome verifier =
      RunProgram("bastion-verifier --target " + target + " --listen unix://" + folder.File("v"));
  ASSERT_EQ(verifier.exit_status, 1) << verifier.output;
  // "bastion-verifier: INVALID_ARGUMENT: message"
  const size_t colon = verifier.output.find(": ", verifier.output.find(": ") + 1);
  const std::string message = verifier.output.substr(colon + 2, verifier.output.size() - colon - 3);
  ASSERT_THAT(message, HasSubstr("GPT2LMHeadModel"));

  const Outcome doctor = RunProgram("bastionctl doctor --target " + target);
  EXPECT_EQ(doctor.exit_status, 1);
  EXPECT_THAT(doctor.output, HasSubstr("The checkpoints do not run."));
  EXPECT_THAT(doctor.output, HasSubstr("bastion-verifier      " + message));
}

}  // namespace
}  // namespace bastion
