// bastion-train: counts which tokens follow each token and each pair of tokens in texts, and writes
// the transition table that policies with +prior use: DRAFTER_DIR/transition_prior.safetensors.
//
//   bastion-train prior --target DIR [--out DRAFTER_DIR] FILE…
#include <cstring>
#include <filesystem>
#include <iostream>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "common/base/program.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "common/prior/transition_file.h"
#include "tools/train/training_texts.h"
#include "tools/train/transition_counter.h"

ABSL_FLAG(std::string, target, "",
          "Folder or GGUF file of the target. Only its config and tokenizer are read.");
ABSL_FLAG(std::string, out, ".",
          "Folder for transition_prior.safetensors, normally the drafter's folder.");
ABSL_FLAG(int, continuations, bastion::drafter::TransitionLimits().singles,
          "Maximum number of continuations to keep for a token.");
ABSL_FLAG(int, pair_continuations, bastion::drafter::TransitionLimits().pairs,
          "Maximum number of continuations to keep for a pair of tokens. Continuations seen only "
          "once are dropped.");
ABSL_FLAG(int, min_pair_count, bastion::drafter::TransitionLimits().min_pair_total,
          "Pairs that occur fewer times than this are dropped.");
ABSL_FLAG(int64_t, max_entries, bastion::drafter::TransitionLimits().max_entries,
          "Maximum number of continuations to keep in total. The rarest pairs are dropped first.");
ABSL_FLAG(int64_t, max_counted, bastion::drafter::TransitionCounter::kMaxCounted,
          "Maximum number of continuations of single tokens to hold in memory while counting. The "
          "same maximum applies to continuations of pairs. Each takes 70 to 140 bytes. When there "
          "are more, the rarest are dropped.");

namespace bastion {
namespace {

using drafter::TransitionCounter;

constexpr char kExample[] =
    "prior --target deploy/demo_model/target --out deploy/demo_model/drafter texts.txt";

absl::Status Count(const std::vector<std::string>& files, TransitionCounter& counter) {
  ProgressBar bar("bytes counted");
  RETURN_IF_ERROR(drafter::ForEachText(
      files, absl::GetFlag(FLAGS_target),
      [&](absl::Span<const TokenId> text) { return counter.Add(text); },
      [&](int64_t done, int64_t total) { bar.Show(done, total); }));
  if (counter.tokens() == 0) return absl::InvalidArgumentError("the files contain no tokens");
  return absl::OkStatus();
}

drafter::TransitionLimits LimitsFromFlags() {
  drafter::TransitionLimits limits;
  limits.singles = absl::GetFlag(FLAGS_continuations);
  limits.pairs = absl::GetFlag(FLAGS_pair_continuations);
  limits.min_pair_total = absl::GetFlag(FLAGS_min_pair_count);
  limits.max_entries = absl::GetFlag(FLAGS_max_entries);
  return limits;
}

absl::Status Prior(const std::vector<std::string>& files) {
  const std::string target = absl::GetFlag(FLAGS_target), out = absl::GetFlag(FLAGS_out);
  if (files.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("no text files were given. Example: bastion-train ", kExample));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(out, error)) {
    return absl::NotFoundError(
        absl::StrCat("--out ", out, ": the folder does not exist; create it first"));
  }
  if (absl::GetFlag(FLAGS_max_counted) < 1) {
    return absl::InvalidArgumentError("--max_counted must be at least 1");
  }
  const drafter::TransitionLimits limits = LimitsFromFlags();
  RETURN_IF_ERROR(drafter::Validate(limits));
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(target));
  if (config.dims.vocabulary > TransitionCounter::kMaxVocabulary) {
    return absl::UnimplementedError(absl::StrCat(
        target, ": the vocabulary has ", config.dims.vocabulary, " tokens; the maximum is ",
        static_cast<int>(TransitionCounter::kMaxVocabulary)));
  }
  TransitionCounter counter(config.dims.vocabulary, absl::GetFlag(FLAGS_max_counted));
  RETURN_IF_ERROR(Count(files, counter));
  ASSIGN_OR_RETURN(const TransitionTable table, counter.Build(limits));
  const std::string path = (std::filesystem::path(out) / hub::kTransitionFileName).string();
  RETURN_IF_ERROR(hub::WriteTransitionTable(table, path));
  std::cout << path << ": counted " << counter.tokens() << " tokens in " << counter.texts()
            << " texts; the table has " << table.columns().tokens.size() << " continuations of "
            << table.vocabulary() << " single tokens and " << table.columns().pairs.size()
            << " pairs, " << std::filesystem::file_size(path) << " bytes\n";
  return absl::OkStatus();
}

absl::Status Run(const std::vector<char*>& arguments) {
  if (arguments.size() < 2 || std::strcmp(arguments[1], "prior") != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the first argument must be \"prior\". Example: bastion-train ", kExample));
  }
  return Prior({arguments.begin() + 2, arguments.end()});
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  const bastion::ProgramInfo info = {
      .summary = "Counts which tokens follow each token in texts, for policies with +prior.",
      .usage = "prior --target DIR [--out DRAFTER_DIR] FILE... [flags]",
      .example = bastion::kExample,
      .required = {"target"},
      .groups = {{"Input and output", {"target DIR", "out DIR"}},
                 {"Limits",
                  {"continuations N", "pair_continuations N", "min_pair_count N", "max_entries N",
                   "max_counted N"}}},
      .notes =
          "FILE is a .txt file, or a .jsonl file with \"text\" or \"token_ids\" in each line. Text "
          "that the\ntarget generated makes the best table."};
  return bastion::RunProgram(argc, argv, info, bastion::Run);
}
