// The program bastion-train: trains a drafter that the engine serves, and survives kill -9.
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tests/support/golden_file.h"
#include "tests/support/temp_folder.h"

namespace bastion::train {
namespace {

constexpr char kProgram[] = BASTION_BINARY_DIR "/bin/bastion-train";
constexpr int kSteps = 60;

std::string ContentsOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class BastionTrainTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string prompts;
    for (int i = 0; i < 40; ++i) {
      absl::StrAppend(&prompts, "{\"id\": \"p", i, "\", \"token_ids\": [", 2 + i, ", ", 90 - i,
                      ", 5, ", 3 * i, "]}\n");
    }
    folder_.Write("prompts.jsonl", prompts);
    ASSERT_EQ(Run({"teach", "--out=" + folder_.File("teacher"), "--max_new_tokens=60"}), 0);
  }

  // Starts the program with flags that all commands here share.
  pid_t Start(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), kProgram);
    for (const std::string& flag :
         {"--target=" + target_, "--prompts=" + folder_.File("prompts.jsonl"),
          std::string("--threads=1"), std::string("--weights=fp32")}) {
      arguments.push_back(flag);
    }
    std::vector<char*> pointers;
    for (std::string& argument : arguments) pointers.push_back(argument.data());
    pointers.push_back(nullptr);
    pid_t process = 0;
    EXPECT_EQ(posix_spawn(&process, kProgram, nullptr, nullptr, pointers.data(), environ), 0);
    return process;
  }
  static int Wait(pid_t process) {
    int status = 0;
    EXPECT_EQ(waitpid(process, &status, 0), process);
    return status;
  }
  int Run(std::vector<std::string> arguments) const { return Wait(Start(std::move(arguments))); }

  // A run that saves its state after every step.
  std::vector<std::string> Training(const std::string& kind, const std::string& out) const {
    return {kind,
            "--teacher=" + folder_.File("teacher"),
            "--out=" + folder_.File(out),
            absl::StrCat("--steps=", kSteps),
            "--mask_token=1",
            "--texts=2",
            "--pool_bytes=100000",
            "--pool_uses=2",
            "--layers=1",
            "--hidden=32",
            "--feature_layers=1,2",
            "--draft_steps=3",
            "--draft_vocabulary=40",
            "--save_minutes=0",
            "--judgements=2",
            "--judge_prompts=2"};
  }

  testing::TempFolder folder_;
  const std::string target_ = testing::GoldenFolder("gqa1_tied_draft1") + "/target";
};

TEST_F(BastionTrainTest, AKilledAndResumedRunEndsWithTheBitsOfAnUndisturbedOne) {
  for (const char* kind :
       {"dflash", "dflash2", "eagle3", "medusa", "parallelspec", "specblock", "autoregressive"}) {
    SCOPED_TRACE(kind);
    const std::string whole = absl::StrCat(kind, "_whole"), killed = absl::StrCat(kind, "_killed");
    ASSERT_EQ(Run(Training(kind, whole)), 0);
    const pid_t process = Start(Training(kind, killed));
    const std::string log = folder_.File(killed) + "/training.jsonl";
    // Log lines come every ten steps. The run has written states by then.
    while (!absl::StrContains(ContentsOf(log), "\"step\":20")) {
      ASSERT_EQ(waitpid(process, nullptr, WNOHANG), 0) << "the run ended before it was killed";
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ASSERT_EQ(kill(process, SIGKILL), 0);
    ASSERT_TRUE(WIFSIGNALED(Wait(process)));
    std::vector<std::string> resumed = Training(kind, killed);
    resumed.push_back("--resume");
    ASSERT_EQ(Run(resumed), 0);
    for (const char* file : {"/model.safetensors", "/config.json", "/latest/model.safetensors"}) {
      const std::string expected = ContentsOf(folder_.File(whole) + file);
      EXPECT_FALSE(expected.empty()) << file;
      EXPECT_EQ(ContentsOf(folder_.File(killed) + file), expected) << file;
    }
    // The serving engine measured the drafter.
    EXPECT_TRUE(absl::StrContains(ContentsOf(log), "\"fixed:64\":")) << ContentsOf(log);
  }
}

TEST_F(BastionTrainTest, TextOfAnotherTargetIsRefused) {
  std::string info = ContentsOf(folder_.File("teacher") + "/teacher.json");
  const size_t begin = info.find("\"target\": \"") + 11;
  info.replace(begin, 4, "0000");
  folder_.Write("teacher/teacher.json", info);
  EXPECT_NE(Run(Training("dflash", "other")), 0);
  EXPECT_FALSE(std::filesystem::exists(folder_.File("other") + "/model.safetensors"));
}

}  // namespace
}  // namespace bastion::train
