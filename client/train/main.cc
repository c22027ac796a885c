// bastion-train: makes what a drafter knows beside its weights.
//
//   bastion-train prior --target DIR [--out DRAFTER_DIR] FILE…   transition_prior.safetensors
#include <cstring>
#include <filesystem>
#include <iostream>

#include "absl/flags/flag.h"
#include "absl/strings/str_cat.h"
#include "client/train/training_texts.h"
#include "client/train/transition_counter.h"
#include "common/base/program.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "common/prior/transition_file.h"

ABSL_FLAG(std::string, target, "", "Folder of the target: vocabulary, and tokenizer for text");
ABSL_FLAG(std::string, out, ".", "Folder that gets the result: the drafter's");
ABSL_FLAG(int, continuations, bastion::drafter::TransitionLimits().singles,
          "prior: continuations to keep of a token");
ABSL_FLAG(int, pair_continuations, bastion::drafter::TransitionLimits().pairs,
          "prior: continuations to keep of a pair of tokens, of those seen at least twice");
ABSL_FLAG(int, min_pair_count, bastion::drafter::TransitionLimits().min_pair_total,
          "prior: pairs that were followed less often are left out");
ABSL_FLAG(int64_t, max_entries, bastion::drafter::TransitionLimits().max_entries,
          "prior: continuations to keep in all; the rarest pairs are left out first");
ABSL_FLAG(
    int64_t, max_counted, bastion::drafter::TransitionCounter::kMaxCounted,
    "prior: continuations to count at a time, 70 to 140 bytes each; beyond, the rarest drop out");

namespace bastion {
namespace {

using drafter::TransitionCounter;

constexpr const char* kUsage = "bastion-train prior --target DIR [--out DRAFTER_DIR] FILE...";

absl::Status Count(const std::vector<std::string>& files, TransitionCounter& counter) {
  ProgressBar bar("bytes counted");
  RETURN_IF_ERROR(drafter::ForEachText(
      files, absl::GetFlag(FLAGS_target),
      [&](absl::Span<const TokenId> text) { return counter.Add(text); },
      [&](int64_t done, int64_t total) { bar.Show(done, total); }));
  if (counter.tokens() == 0) return absl::InvalidArgumentError("no tokens in these files");
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
  if (target.empty() || files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--target and files are needed: ", kUsage));
  }
  std::error_code error;
  if (!std::filesystem::is_directory(out, error)) {
    return absl::NotFoundError(absl::StrCat("--out ", out, ": no such folder"));
  }
  if (absl::GetFlag(FLAGS_max_counted) < 1) {
    return absl::InvalidArgumentError("--max_counted wants at least 1");
  }
  const drafter::TransitionLimits limits = LimitsFromFlags();
  RETURN_IF_ERROR(drafter::Validate(limits));
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(target));
  if (config.dims.vocabulary > TransitionCounter::kMaxVocabulary) {
    return absl::UnimplementedError(
        absl::StrCat(target, ": a vocabulary of ", config.dims.vocabulary, " tokens; at most ",
                     static_cast<int>(TransitionCounter::kMaxVocabulary), " can be counted"));
  }
  TransitionCounter counter(config.dims.vocabulary, absl::GetFlag(FLAGS_max_counted));
  RETURN_IF_ERROR(Count(files, counter));
  ASSIGN_OR_RETURN(const TransitionTable table, counter.Build(limits));
  const std::string path = (std::filesystem::path(out) / hub::kTransitionFileName).string();
  RETURN_IF_ERROR(hub::WriteTransitionTable(table, path));
  std::cout << path << ": " << counter.texts() << " texts, " << counter.tokens() << " tokens; "
            << table.vocabulary() << " tokens and " << table.columns().pairs.size()
            << " pairs as contexts, " << table.columns().tokens.size() << " continuations, "
            << std::filesystem::file_size(path) << " bytes\n";
  return absl::OkStatus();
}

absl::Status Run(const std::vector<char*>& arguments) {
  if (arguments.size() < 2 || std::strcmp(arguments[1], "prior") != 0) {
    return absl::InvalidArgumentError(absl::StrCat("want: ", kUsage, " (--help for flags)"));
  }
  return Prior({arguments.begin() + 2, arguments.end()});
}

}  // namespace
}  // namespace bastion

int main(int argc, char** argv) {
  return bastion::RunProgram(argc, argv, bastion::kUsage, bastion::Run);
}
