// ContextCatchUp: extends the contexts of several sequences together. A forward over the rows of
// all of them reads the drafter's weights once; a forward for each would read them as often as
// there are sequences. Thread-compatible.
#ifndef BASTION_DRAFTER_SERVICE_ENGINE_CONTEXT_CATCH_UP_H_
#define BASTION_DRAFTER_SERVICE_ENGINE_CONTEXT_CATCH_UP_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/stages/stage_data.h"
#include "drafter_service/draft/draft_model.h"
#include "drafter_service/engine/draft_sequences.h"
#include "drafter_service/engine/patient_features.h"

namespace bastion::drafter {

class ContextCatchUp {
 public:
  // A sequence whose context is to have `committed` tokens.
  struct Request {
    DraftSequence* sequence;
    Position committed;
    absl::Status status = {};  // Set by Run. An error is of this sequence alone.
  };

  // The arguments must outlive this object. It adds times and rows to `trace`.
  ContextCatchUp(DraftModel* model, PatientFeatures* features, DraftTrace* trace)
      : model_(model), features_(features), trace_(trace) {}

  // Reads the features that the contexts lack, and appends them.
  void Run(absl::Span<Request> requests);
  // Appends the features of the tokens after a sequence's context.
  [[nodiscard]] absl::Status Append(Features features, DraftSequence& sequence);

 private:
  // Features of one sequence, and who asked for them.
  struct Piece {
    Request* request;
    Features features;
  };

  [[nodiscard]] absl::StatusOr<Features> Read(const Request& request, int rows, bool on_device);
  // The next rows of all sequences, at most kContextChunk. A sequence without features gets the
  // error.
  [[nodiscard]] std::vector<Piece> ReadRound(absl::Span<Request> requests);
  // Appends the pieces in one forward. If that fails, appends one after the other.
  void AppendRound(std::vector<Piece>& pieces);
  // Appends a piece alone. Rows that were overwritten on the device are read again as bytes.
  [[nodiscard]] absl::Status AppendAlone(Piece piece);
  // Appends to the context of each item. All or none.
  [[nodiscard]] absl::Status AppendItems(const std::vector<ContextItem>& items);

  DraftModel* const model_;
  PatientFeatures* const features_;
  DraftTrace* const trace_;
};

}  // namespace bastion::drafter

#endif  // BASTION_DRAFTER_SERVICE_ENGINE_CONTEXT_CATCH_UP_H_
