// AnswerPrinter: prints the answers of one call one after another. The text of the first unfinished
// answer is printed as it arrives; that of later answers waits. Thread-compatible.
#ifndef BASTION_CLIENT_CTL_ANSWER_PRINTER_H_
#define BASTION_CLIENT_CTL_ANSWER_PRINTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>

#include "bastion/v1/generation.pb.h"

namespace bastion {

class AnswerPrinter {
 public:
  // The text of `answers` answers goes to `text`, with a heading for each if there are several. A
  // line of statistics for each goes to `statistics`; null: none. Both must outlive this object.
  AnswerPrinter(uint32_t answers, std::ostream* text, std::ostream* statistics);

  void Print(const v1::GenerateResponse& event);

  // The text of the first answer.
  [[nodiscard]] std::string first() const;

 private:
  struct Answer {
    std::string text;
    std::optional<v1::Finished> finished;
  };

  // Prints all that can be printed.
  void Advance();

  const uint32_t count_;
  std::map<uint32_t, Answer> answers_;  // Those with an event.
  std::ostream* const text_;
  std::ostream* const statistics_;
  uint32_t current_ = 0;    // The answer that is being printed.
  bool has_begun_ = false;  // Its heading is printed.
  size_t printed_ = 0;      // Bytes of its text that are printed.
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CTL_ANSWER_PRINTER_H_
