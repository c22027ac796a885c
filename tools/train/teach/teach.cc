#include "tools/train/teach/teach.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "common/base/clock.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"
#include "tools/bench/prompts.h"
#include "tools/train/teach/target_writer.h"
#include "tools/train/teach/teacher_text.h"

namespace bastion::train {
namespace {

struct Totals {
  int64_t texts = 0, written = 0, loops = 0;
};

WriterOptions WriterOptionsOf(const TeachOptions& options,
                              const std::vector<BenchPrompt>& prompts) {
  WriterOptions writer = {.target = options.target,
                          .formats = options.formats,
                          .device = options.device,
                          .live = options.live,
                          .max_new_tokens = options.max_new_tokens};
  for (const BenchPrompt& prompt : prompts) {
    writer.max_prompt_tokens =
        std::max(writer.max_prompt_tokens, static_cast<int>(prompt.tokens.size()));
  }
  return writer;
}

// The target continues prompts [first, end). The texts end where a loop begins.
absl::StatusOr<std::vector<TeacherText>> Continue(const TeachOptions& options,
                                                  const std::vector<BenchPrompt>& prompts,
                                                  std::pair<int64_t, int64_t> range,
                                                  TargetWriter& writer, Totals* totals) {
  std::vector<WantedText> wanted;
  for (int64_t i = range.first; i < range.second; ++i) {
    const std::vector<TokenId>& tokens = prompts[i].tokens;
    wanted.push_back({{prompts[i].id, tokens, static_cast<int>(tokens.size())},
                      {.temperature = options.temperatures[i % options.temperatures.size()],
                       .seed = options.seed + i}});
  }
  RETURN_IF_ERROR(Annotate(writer.Write(absl::MakeSpan(wanted)), options.prompts));
  std::vector<TeacherText> texts;
  for (WantedText& entry : wanted) {
    TeacherText& text = entry.text;
    const int useful = UsefulLength(absl::MakeConstSpan(text.tokens).subspan(text.prompt_tokens));
    totals->loops += useful < text.written() ? 1 : 0;
    totals->written += useful;
    text.tokens.resize(text.prompt_tokens + useful);
    texts.push_back(std::move(text));
  }
  totals->texts += static_cast<int64_t>(texts.size());
  return texts;
}

absl::StatusOr<TeacherInfo> InfoOf(const TeachOptions& options) {
  ASSIGN_OR_RETURN(const auto checkpoint, hub::Checkpoint::Open(options.target));
  ASSIGN_OR_RETURN(const nn::Formats formats, nn::ParseFormats(options.formats));
  TeacherInfo info;
  ASSIGN_OR_RETURN(info.target, checkpoint->Identity());
  info.weights = Name(formats.weights);
  info.activations = Name(formats.activations);
  info.prompts = std::filesystem::path(options.prompts).filename().string();
  info.template_args = options.template_args;
  info.temperatures = options.temperatures;
  info.seed = options.seed;
  info.max_new_tokens = options.max_new_tokens;
  return info;
}

// "--seed" and so on: the options that differ. Empty if there are none.
std::string Differences(const TeacherInfo& found, const TeacherInfo& wanted) {
  std::vector<std::string> names;
  const auto compare = [&](bool equal, const char* name) {
    if (!equal) names.emplace_back(name);
  };
  compare(found.target == wanted.target, "--target");
  compare(found.weights == wanted.weights, "--weights");
  compare(found.activations == wanted.activations, "--dtype");
  compare(found.prompts == wanted.prompts, "--prompts");
  compare(found.template_args == wanted.template_args, "--template_args");
  compare(found.temperatures == wanted.temperatures, "--temperatures");
  compare(found.seed == wanted.seed, "--seed");
  compare(found.max_new_tokens == wanted.max_new_tokens, "--max_new_tokens");
  return absl::StrJoin(names, ", ");
}

// Checks that text i of the folder continues prompt i, and returns the number of texts. The name of
// the file of prompts does not tell: the file or the chat template may have changed.
absl::StatusOr<int64_t> CountTexts(const TeachOptions& options,
                                   const std::vector<BenchPrompt>& prompts) {
  ASSIGN_OR_RETURN(const int64_t lines, RepairTeacherTexts(options.out));
  if (lines == 0) return 0;
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadTargetConfig(options.target));
  ASSIGN_OR_RETURN(const std::vector<TeacherText> texts,
                   ReadTeacherTexts(options.out, config.dims.vocabulary));
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto prompt = absl::MakeConstSpan(texts[i].tokens)
                            .subspan(0, static_cast<size_t>(texts[i].prompt_tokens));
    if (i < prompts.size() && texts[i].id == prompts[i].id &&
        prompt == absl::MakeConstSpan(prompts[i].tokens)) {
      continue;
    }
    return absl::FailedPreconditionError(
        absl::StrCat("--out ", options.out, ": line ", i + 1, " of texts.jsonl continues prompt \"",
                     texts[i].id, "\", which is not prompt ", i + 1, " of ", options.prompts,
                     "; did the prompts or the chat template change? Use another folder"));
  }
  return lines;
}

// Makes the folder, or checks that the same options made the text in it. Returns the number of
// texts in it.
absl::StatusOr<int64_t> OpenFolder(const TeachOptions& options,
                                   const std::vector<BenchPrompt>& prompts) {
  ASSIGN_OR_RETURN(const TeacherInfo wanted, InfoOf(options));
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out ", options.out, ": cannot create the folder: ", error.message()));
  }
  const absl::StatusOr<TeacherInfo> found = ReadTeacherInfo(options.out);
  if (absl::IsNotFound(found.status())) {
    if (std::filesystem::exists(options.out + "/texts.jsonl", error)) {
      return absl::FailedPreconditionError(
          absl::StrCat("--out ", options.out,
                       ": has texts.jsonl but no teacher.json, which says how the text was made; "
                       "use another folder"));
    }
    RETURN_IF_ERROR(WriteTeacherInfo(wanted, options.out));
    return 0;
  }
  RETURN_IF_ERROR(found.status());
  if (*found != wanted) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--out ", options.out, ": has text that was made with other options (teacher.json): ",
        Differences(*found, wanted), "; use another folder"));
  }
  return CountTexts(options, prompts);
}

absl::Status CheckOptions(const TeachOptions& options) {
  if (options.temperatures.empty()) {
    return absl::InvalidArgumentError("--temperatures is empty; list at least one number");
  }
  if (options.max_new_tokens < 1 || options.live < 1) {
    return absl::InvalidArgumentError("--max_new_tokens and --live must be positive");
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Teach(const TeachOptions& options) {
  RETURN_IF_ERROR(CheckOptions(options));
  ASSIGN_OR_RETURN(const std::vector<BenchPrompt> prompts,
                   LoadPrompts(options.prompts, options.target, options.template_args));
  ASSIGN_OR_RETURN(const int64_t existing, OpenFolder(options, prompts));
  ASSIGN_OR_RETURN(const std::unique_ptr<TargetWriter> writer,
                   TargetWriter::Create(WriterOptionsOf(options, prompts)));
  const absl::Duration began = Clock::Real().Now();
  const auto spent = [&] { return Clock::Real().Now() - began; };
  const auto all = static_cast<int64_t>(prompts.size());
  Totals totals;
  {
    ProgressBar bar("teacher texts");
    for (int64_t first = existing; first < all && spent() < options.time;) {
      bar.Show(first, all);
      const int64_t end = std::min<int64_t>(all, first + writer->group());
      ASSIGN_OR_RETURN(const std::vector<TeacherText> texts,
                       Continue(options, prompts, {first, end}, *writer, &totals));
      RETURN_IF_ERROR(AppendTeacherTexts(texts, options.out));
      first = end;
      bar.Show(first, all);
    }
  }
  const double seconds = std::max(absl::ToDoubleSeconds(spent()), 1e-9);
  std::cout << options.out
            << absl::StrFormat(
                   ": wrote %d texts (%d of %d prompts are done), %d tokens, %.0f tokens/s; %d "
                   "texts were cut where a loop began\n",
                   totals.texts, existing + totals.texts, all, totals.written,
                   static_cast<double>(totals.written) / seconds, totals.loops);
  return absl::OkStatus();
}

}  // namespace bastion::train
