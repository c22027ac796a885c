#include "tools/train/teach/target_writer.h"

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/hub/model_config.h"
#include "kernels/ops/types.h"
#include "tools/train/teach/prefill.h"

namespace bastion::train {

absl::StatusOr<std::unique_ptr<TargetWriter>> TargetWriter::Create(const WriterOptions& options) {
  auto writer = std::unique_ptr<TargetWriter>(new TargetWriter(options));
  ASSIGN_OR_RETURN(const hub::ModelConfig config, hub::ReadTargetConfig(options.target));
  writer->stops_ = config.special.eos;
  const int64_t tokens = int64_t{options.max_prompt_tokens} + options.max_new_tokens;
  if (tokens > config.max_positions) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the longest prompt has ", options.max_prompt_tokens, " tokens; with --max_new_tokens=",
        options.max_new_tokens, " it exceeds the target's context of ", config.max_positions));
  }
  ASSIGN_OR_RETURN(writer->device_, nn::OpenLocalDevice(options.device));
  verifier::VerifierOptions engine;
  engine.target_folder = options.target;
  ASSIGN_OR_RETURN(engine.engine.formats, nn::ParseFormats(options.formats));
  engine.engine.device = writer->device_.device;
  engine.engine.show_progress = true;
  // Each text may leave a page partly empty.
  engine.engine.kv_tokens = options.live * (static_cast<int>(tokens) + kernels::kPageTokens);
  engine.max_sequences = options.live;
  engine.max_rows = std::max(engine.max_rows, options.live);
  engine.reuse_prefixes = false;
  ASSIGN_OR_RETURN(writer->engine_, verifier::VerifierEngine::Create(engine));
  return writer;
}

absl::Status TargetWriter::Write(absl::Span<WantedText> texts) {
  std::vector<Live> live;
  const absl::Cleanup close = [&] {
    for (const Live& entry : live) engine_->Close(entry.sequence);
  };
  for (size_t next = 0; next < texts.size() || !live.empty();) {
    const size_t before = live.size();
    for (; next < texts.size() && live.size() < static_cast<size_t>(options_.live); ++next) {
      live.push_back({{++last_session_, 0}, &texts[next]});
    }
    RETURN_IF_ERROR(Begin(absl::MakeConstSpan(live).subspan(before)));
    RETURN_IF_ERROR(Step(&live));
  }
  return absl::OkStatus();
}

absl::Status TargetWriter::Begin(absl::Span<const Live> live) {
  std::vector<PrefillText> prompts;
  for (const Live& entry : live) {
    const absl::Span<const TokenId> tokens = entry.wanted->text.tokens;
    SamplingParams sampling = {entry.wanted->choice};
    sampling.prompt_tokens = static_cast<int>(tokens.size());
    RETURN_IF_ERROR(engine_->Open(entry.sequence, sampling));
    prompts.push_back({entry.sequence, tokens.subspan(0, tokens.size() - 1)});
  }
  return Prefill(*engine_, prompts);
}

bool TargetWriter::Ended(const TeacherText& text) const {
  return text.written() >= options_.max_new_tokens ||
         std::find(stops_.begin(), stops_.end(), text.tokens.back()) != stops_.end();
}

absl::Status TargetWriter::Step(std::vector<Live>* live) {
  Forest forest;
  for (const Live& entry : *live) {
    const std::vector<TokenId>& tokens = entry.wanted->text.tokens;
    forest.push_back(
        {entry.sequence, static_cast<Position>(tokens.size() - 1), DraftTree(tokens.back())});
  }
  ASSIGN_OR_RETURN(const VerifyResult result, engine_->Verify(forest, {}));
  for (size_t i = 0; i < live->size(); ++i) {
    TeacherText& text = (*live)[i].wanted->text;
    RETURN_IF_ERROR(Annotate(result.outcomes[i].status, text.id));
    text.tokens.push_back(result.outcomes[i].acceptance.next);
  }
  std::erase_if(*live, [&](const Live& entry) {
    if (!Ended(entry.wanted->text)) return false;
    engine_->Close(entry.sequence);
    return true;
  });
  return absl::OkStatus();
}

}  // namespace bastion::train
