// Explains an answer: what each cycle drafted, verified and committed, and why. Everything that the
// server sends is escaped before it is printed.
#ifndef BASTION_CLIENT_CTL_EXPLAIN_H_
#define BASTION_CLIENT_CTL_EXPLAIN_H_

#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "bastion/v1/generation.pb.h"
#include "client/ctl/tree_drawing.h"

namespace bastion {

// All that is known about an answer. Plain data.
struct Explanation {
  v1::GenerateRequest request;
  v1::Started started;
  std::vector<v1::CycleReport> cycles;
  std::string answer;
  v1::Finished finished;
};

// Asks for the trees and totals that an Explainer prints.
void RequestExplanation(v1::GenerateRequest* request);

// What CycleReport.budget_reason means, in a few plain words. An unknown reason is returned
// escaped.
[[nodiscard]] std::string BudgetReasonMeaning(absl::string_view reason);

// How much a prediction was too high, in whole % of the measured value. 0 if nothing was measured.
[[nodiscard]] double PercentTooHigh(double predicted, double measured);

// The texts of the tokens that a cycle added to the output, in order. An empty text is that of a
// token without text. Empty if the report has no tree.
[[nodiscard]] std::vector<std::string> CommittedTexts(const v1::CycleReport& cycle);

struct Stage {
  const char* name;
  double milliseconds;
};
// The stages of a cycle, in the order in which they happen.
[[nodiscard]] std::vector<Stage> StagesOf(const v1::CycleReport& cycle);

// Prints the cycles of an answer while it is generated, then the answer and its totals.
// Thread-compatible.
class Explainer {
 public:
  // `out` must outlive this object.
  Explainer(const v1::GenerateRequest& request, const TreeStyle& style, std::ostream* out);

  // Prints what `event` tells about the first answer.
  void Print(const v1::GenerateResponse& event);

  // What was printed so far.
  [[nodiscard]] const Explanation& explanation() const { return explanation_; }

 private:
  void PrintCycle(const v1::CycleReport& cycle);
  void PrintEnd();

  const TreeStyle style_;
  std::ostream* const out_;
  Explanation explanation_;
};

}  // namespace bastion

#endif  // BASTION_CLIENT_CTL_EXPLAIN_H_
