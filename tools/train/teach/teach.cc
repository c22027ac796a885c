#include "tools/train/teach/teach.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/clock.h"
#include "common/base/progress.h"
#include "common/base/status.h"
#include "common/hub/checkpoint.h"
#include "common/hub/model_config.h"
#include "kernels/ops/types.h"
#include "tools/bench/prompts.h"
#include "tools/train/teach/prefill.h"
#include "tools/train/teach/teacher_text.h"
#include "verifier_service/engine/verifier_engine.h"

namespace bastion::train {
namespace {

// A group has this many times as many texts as are live. Its texts are written together.
constexpr int kGroup = 4;

struct Totals {
  int64_t texts = 0, written = 0, loops = 0;
};

// Writes the texts of prompts.
class Teacher {
 public:
  static absl::StatusOr<std::unique_ptr<Teacher>> Create(const TeachOptions& options,
                                                         std::vector<BenchPrompt> prompts);

  [[nodiscard]] size_t prompts() const { return prompts_.size(); }
  // The texts of prompts [first, end), without the loops at their ends.
  [[nodiscard]] absl::StatusOr<std::vector<TeacherText>> Write(size_t first, size_t end,
                                                               Totals* totals);

 private:
  struct Live {
    SequenceId sequence;
    TeacherText* text;
  };
  Teacher(const TeachOptions& options, std::vector<BenchPrompt> prompts)
      : options_(options), prompts_(std::move(prompts)) {}

  // Opens the sequences of prompts and commits all but their last tokens, the first roots.
  [[nodiscard]] absl::Status Begin(absl::Span<const Live> live);
  // The target writes a token of each text. Removes those that ended.
  [[nodiscard]] absl::Status Step(std::vector<Live>* live);
  [[nodiscard]] bool Ended(const TeacherText& text) const;

  const TeachOptions options_;
  const std::vector<BenchPrompt> prompts_;
  std::vector<TokenId> stops_;
  nn::LocalDevice device_;
  std::unique_ptr<verifier::VerifierEngine> engine_;
};

absl::StatusOr<std::unique_ptr<Teacher>> Teacher::Create(const TeachOptions& options,
                                                         std::vector<BenchPrompt> prompts) {
  auto teacher = std::unique_ptr<Teacher>(new Teacher(options, std::move(prompts)));
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadTargetConfig(options.target));
  teacher->stops_ = config.special.eos;
  size_t longest = 0;
  for (const BenchPrompt& prompt : teacher->prompts_) {
    longest = std::max(longest, prompt.tokens.size());
  }
  if (longest + options.max_new_tokens > static_cast<size_t>(config.max_positions)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.prompts, ": the longest prompt has ", longest, " tokens; with --max_new_tokens=",
        options.max_new_tokens, " it exceeds the target's context of ", config.max_positions));
  }
  ASSIGN_OR_RETURN(teacher->device_, nn::OpenLocalDevice(options.device));
  verifier::VerifierOptions engine;
  engine.target_folder = options.target;
  ASSIGN_OR_RETURN(engine.engine.formats, nn::ParseFormats(options.formats));
  engine.engine.device = teacher->device_.device;
  engine.engine.show_progress = true;
  // Each text may leave a page partly empty.
  engine.engine.kv_tokens =
      options.live * (static_cast<int>(longest) + options.max_new_tokens + kernels::kPageTokens);
  engine.max_sequences = options.live;
  engine.max_rows = std::max(engine.max_rows, options.live);
  engine.reuse_prefixes = false;
  ASSIGN_OR_RETURN(teacher->engine_, verifier::VerifierEngine::Create(engine));
  return teacher;
}

absl::StatusOr<std::vector<TeacherText>> Teacher::Write(size_t first, size_t end, Totals* totals) {
  std::vector<TeacherText> texts;
  for (size_t i = first; i < end; ++i) {
    texts.push_back(
        {prompts_[i].id, prompts_[i].tokens, static_cast<int>(prompts_[i].tokens.size())});
  }
  std::vector<Live> live;
  for (size_t next = 0; next < texts.size() || !live.empty();) {
    const size_t before = live.size();
    for (; next < texts.size() && live.size() < static_cast<size_t>(options_.live); ++next) {
      live.push_back({{first + next + 1, 0}, &texts[next]});
    }
    RETURN_IF_ERROR(Begin(absl::MakeConstSpan(live).subspan(before)));
    RETURN_IF_ERROR(Step(&live));
  }
  for (TeacherText& text : texts) {
    const int useful = UsefulLength(absl::MakeConstSpan(text.tokens).subspan(text.prompt_tokens));
    totals->loops += useful < text.written() ? 1 : 0;
    text.tokens.resize(text.prompt_tokens + useful);
    totals->written += useful;
  }
  totals->texts += static_cast<int64_t>(texts.size());
  return texts;
}

absl::Status Teacher::Begin(absl::Span<const Live> live) {
  std::vector<PrefillText> prompts;
  for (const Live& entry : live) {
    const uint64_t index = entry.sequence.session - 1;
    SamplingParams sampling;
    sampling.temperature = options_.temperatures[index % options_.temperatures.size()];
    sampling.seed = options_.seed + index;
    sampling.prompt_tokens = entry.text->prompt_tokens;
    RETURN_IF_ERROR(engine_->Open(entry.sequence, sampling));
    const absl::Span<const TokenId> tokens = entry.text->tokens;
    prompts.push_back({entry.sequence, tokens.subspan(0, tokens.size() - 1)});
  }
  return Prefill(*engine_, prompts);
}

bool Teacher::Ended(const TeacherText& text) const {
  return text.written() >= options_.max_new_tokens ||
         std::find(stops_.begin(), stops_.end(), text.tokens.back()) != stops_.end();
}

absl::Status Teacher::Step(std::vector<Live>* live) {
  Forest forest;
  for (const Live& entry : *live) {
    const auto cached = static_cast<Position>(entry.text->tokens.size() - 1);
    forest.push_back({entry.sequence, cached, DraftTree(entry.text->tokens.back())});
  }
  ASSIGN_OR_RETURN(const VerifyResult result, engine_->Verify(forest, {}));
  for (size_t i = 0; i < live->size(); ++i) {
    RETURN_IF_ERROR(Annotate(result.outcomes[i].status, (*live)[i].text->id));
    (*live)[i].text->tokens.push_back(result.outcomes[i].acceptance.next);
  }
  std::erase_if(*live, [&](const Live& entry) {
    if (!Ended(*entry.text)) return false;
    engine_->Close(entry.sequence);
    return true;
  });
  return absl::OkStatus();
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

// Makes the folder, or checks that the same options made the text in it. Returns the number of
// texts in it.
absl::StatusOr<int64_t> OpenFolder(const TeachOptions& options) {
  ASSIGN_OR_RETURN(const TeacherInfo wanted, InfoOf(options));
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  if (error) {
    return absl::InvalidArgumentError(
        absl::StrCat("--out ", options.out, ": cannot create the folder: ", error.message()));
  }
  const absl::StatusOr<TeacherInfo> found = ReadTeacherInfo(options.out);
  if (absl::IsNotFound(found.status())) {
    RETURN_IF_ERROR(WriteTeacherInfo(wanted, options.out));
    return RepairTeacherTexts(options.out);
  }
  RETURN_IF_ERROR(found.status());
  if (*found != wanted) {
    return absl::FailedPreconditionError(
        absl::StrCat("--out ", options.out,
                     ": has text that was made with other options (teacher.json); use another "
                     "folder"));
  }
  return RepairTeacherTexts(options.out);
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
  ASSIGN_OR_RETURN(std::vector<BenchPrompt> prompts,
                   LoadPrompts(options.prompts, options.target, options.template_args));
  ASSIGN_OR_RETURN(const int64_t existing, OpenFolder(options));
  ASSIGN_OR_RETURN(const std::unique_ptr<Teacher> teacher,
                   Teacher::Create(options, std::move(prompts)));
  const absl::Duration began = Clock::Real().Now();
  const auto spent = [&] { return Clock::Real().Now() - began; };
  const auto all = static_cast<int64_t>(teacher->prompts());
  Totals totals;
  {
    ProgressBar bar("teacher texts");
    for (int64_t first = existing; first < all && spent() < options.time;) {
      bar.Show(first, all);
      const int64_t end = std::min<int64_t>(all, first + int64_t{kGroup} * options.live);
      ASSIGN_OR_RETURN(const std::vector<TeacherText> texts, teacher->Write(first, end, &totals));
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
