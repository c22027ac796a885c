// bastion-train: makes drafters for a target: writes the text to learn from, trains a drafter, and
// counts its transition prior.
//
//   bastion-train turns --target DIR --prompts FILE
//   bastion-train teach --target DIR --prompts FILE --out TEACHER_DIR
//   bastion-train dflash --target DIR --teacher TEACHER_DIR --out DRAFTER_DIR --minutes 60
//   bastion-train prior --target DIR --out DRAFTER_DIR TEACHER_DIR/texts.jsonl
#include "absl/strings/str_cat.h"
#include "common/base/program.h"
#include "common/base/status.h"
#include "tools/train/flags.h"

namespace bastion::train {
namespace {

constexpr char kExample[] =
    "dflash --target deploy/demo_model/target --teacher build/teacher --out build/drafter "
    "--minutes 60";

absl::Status Run(const std::vector<char*>& arguments) {
  const std::string command = arguments.size() < 2 ? "" : arguments[1];
  if (command.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the first argument must be a command: turns, teach, prior or a kind of drafter. Example: "
        "bastion-train ",
        kExample));
  }
  if (command == "prior") {
    ASSIGN_OR_RETURN(const auto options, ReadPriorFlags({arguments.begin() + 2, arguments.end()}));
    return drafter::WritePrior(options);
  }
  if (arguments.size() > 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("bastion-train ", command, " takes no argument \"", arguments[2], "\""));
  }
  if (command == "turns") {
    ASSIGN_OR_RETURN(const TurnsOptions options, ReadTurnsFlags());
    return WriteUserTurns(options);
  }
  if (command == "teach") {
    ASSIGN_OR_RETURN(const TeachOptions options, ReadTeachFlags());
    return Teach(options);
  }
  ASSIGN_OR_RETURN(const TrainOptions options, ReadTrainFlags(command));
  return TrainDrafter(options);
}

}  // namespace
}  // namespace bastion::train

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {
      .summary = "Trains drafters for a target.",
      .usage = "turns|teach|KIND|prior --target DIR --out DIR [FILE...] [flags]",
      .example = bastion::train::kExample,
      .required = {"target"},
      .groups = bastion::train::TrainFlagGroups(),
      .notes =
          "turns   A chat model writes what its users might ask: prompts for teach.\n"
          "teach   The target writes text after prompts: what a drafter learns from.\n"
          "KIND    dflash, dflash2, eagle3, parallelspec, specblock, medusa or autoregressive: "
          "trains a\n        drafter on such text. Needs a build with libtorch.\n"
          "prior   Counts which tokens follow each token in FILEs, for policies with +prior. "
          "FILE is a .txt file,\n        or a .jsonl file with \"text\" or \"token_ids\" in "
          "each line, e.g. the teacher's texts.jsonl."};
  return bastion::RunProgram(argc, argv, info, bastion::train::Run);
}
