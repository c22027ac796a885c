#include "client/ctl/answer_printer.h"

#include <utility>

#include "client/ctl/render.h"

namespace bastion {

AnswerPrinter::AnswerPrinter(uint32_t answers, std::ostream* text, std::ostream* statistics)
    : count_(answers), text_(text), statistics_(statistics) {}

void AnswerPrinter::Print(const v1::GenerateResponse& event) {
  if (event.has_delta()) {
    answers_[event.delta().answer()].text += event.delta().text();
  } else if (event.has_finished()) {
    answers_[event.finished().answer()].finished = event.finished();
  }
  Advance();
}

std::string AnswerPrinter::first() const {
  const auto found = answers_.find(0);
  return found == answers_.end() ? "" : found->second.text;
}

void AnswerPrinter::Advance() {
  for (; current_ < count_; ++current_, printed_ = 0, has_begun_ = false) {
    const auto found = answers_.find(current_);
    if (found == answers_.end()) return;
    const Answer& answer = found->second;
    if (!std::exchange(has_begun_, true) && count_ > 1) {
      *text_ << "---- answer " << current_ + 1 << " of " << count_ << " ----\n";
    }
    *text_ << answer.text.substr(printed_) << std::flush;
    printed_ = answer.text.size();
    if (!answer.finished) return;
    *text_ << "\n" << std::flush;
    if (statistics_ != nullptr) *statistics_ << StatisticsLine(*answer.finished) << "\n";
  }
}

}  // namespace bastion
