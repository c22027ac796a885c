#include "tools/train/prior/prior.h"

#include <filesystem>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "common/prior/transition_file.h"
#include "tools/train/prior/training_texts.h"

namespace bastion::drafter {
namespace {

absl::Status Count(const PriorOptions& options, TransitionCounter& counter) {
  ProgressBar bar("bytes counted");
  RETURN_IF_ERROR(ForEachText(
      options.files, options.target,
      [&](absl::Span<const TokenId> text) { return counter.Add(text); },
      [&](int64_t done, int64_t total) { bar.Show(done, total); }));
  if (counter.tokens() == 0) return absl::InvalidArgumentError("the files contain no tokens");
  return absl::OkStatus();
}

absl::Status Check(const PriorOptions& options) {
  if (options.files.empty()) return absl::InvalidArgumentError("no text files were given");
  std::error_code error;
  if (!std::filesystem::is_directory(options.out, error)) {
    return absl::NotFoundError(
        absl::StrCat("--out ", options.out, ": the folder does not exist; create it first"));
  }
  if (options.max_counted < 1) {
    return absl::InvalidArgumentError("--max_counted must be at least 1");
  }
  return Validate(options.limits);
}

}  // namespace

absl::Status WritePrior(const PriorOptions& options) {
  RETURN_IF_ERROR(Check(options));
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadModelConfig(options.target));
  if (config.dims.vocabulary > TransitionCounter::kMaxVocabulary) {
    return absl::UnimplementedError(absl::StrCat(
        options.target, ": the vocabulary has ", config.dims.vocabulary, " tokens; the maximum is ",
        static_cast<int>(TransitionCounter::kMaxVocabulary)));
  }
  TransitionCounter counter(config.dims.vocabulary, options.max_counted);
  RETURN_IF_ERROR(Count(options, counter));
  ASSIGN_OR_RETURN(const TransitionTable table, counter.Build(options.limits));
  const std::string path = (std::filesystem::path(options.out) / hub::kTransitionFileName).string();
  RETURN_IF_ERROR(hub::WriteTransitionTable(table, path));
  std::cout << path << ": counted " << counter.tokens() << " tokens in " << counter.texts()
            << " texts; the table has " << table.columns().tokens.size() << " continuations of "
            << table.vocabulary() << " single tokens and " << table.columns().pairs.size()
            << " pairs, " << std::filesystem::file_size(path) << " bytes\n";
  return absl::OkStatus();
}

}  // namespace bastion::drafter
