#include "drafter_service/engine/context_catch_up.h"

#include <algorithm>
#include <utility>

#include "common/base/clock.h"
#include "common/base/status.h"

namespace bastion::drafter {

void ContextCatchUp::Run(absl::Span<Request> requests) {
  while (true) {
    std::vector<Piece> pieces = ReadRound(requests);
    if (pieces.empty()) return;
    AppendRound(pieces);
  }
}

absl::StatusOr<Features> ContextCatchUp::Read(const Request& request, int rows, bool on_device) {
  const DraftSequence& sequence = *request.sequence;
  return features_->Read({sequence.id, sequence.context, rows, on_device}, *trace_);
}

std::vector<ContextCatchUp::Piece> ContextCatchUp::ReadRound(absl::Span<Request> requests) {
  std::vector<Piece> pieces;
  int room = kContextChunk;
  for (Request& request : requests) {
    const int rows = std::min(request.committed - request.sequence->context, room);
    if (!request.status.ok() || rows <= 0) continue;
    absl::StatusOr<Features> features = Read(request, rows, model_->device_reader() != nullptr);
    if (!features.ok()) {
      request.status = features.status();
      continue;
    }
    room -= features->rows();
    pieces.push_back({&request, *std::move(features)});
  }
  return pieces;
}

void ContextCatchUp::AppendRound(std::vector<Piece>& pieces) {
  std::vector<ContextItem> items;
  items.reserve(pieces.size());
  for (Piece& piece : pieces) {
    DraftSequence& sequence = *piece.request->sequence;
    items.push_back({&sequence.table, sequence.context, std::move(piece.features)});
  }
  if (AppendItems(items).ok()) {
    for (size_t i = 0; i < items.size(); ++i) {
      pieces[i].request->sequence->context += items[i].features.rows();
    }
    return;
  }
  for (size_t i = 0; i < items.size(); ++i) {
    pieces[i].request->status = AppendAlone({pieces[i].request, std::move(items[i].features)});
  }
}

absl::Status ContextCatchUp::AppendAlone(Piece piece) {
  const Request& request = *piece.request;
  const int rows = piece.features.rows();
  const bool on_device = piece.features.on_device();
  absl::Status appended = Append(std::move(piece.features), *request.sequence);
  if (!on_device || !absl::IsAborted(appended)) return appended;
  ASSIGN_OR_RETURN(Features bytes, Read(request, rows, /*on_device=*/false));
  return Append(std::move(bytes), *request.sequence);
}

absl::Status ContextCatchUp::Append(Features features, DraftSequence& sequence) {
  const int rows = features.rows();
  RETURN_IF_ERROR(AppendItems({{&sequence.table, sequence.context, std::move(features)}}));
  sequence.context += rows;
  return absl::OkStatus();
}

absl::Status ContextCatchUp::AppendItems(const std::vector<ContextItem>& items) {
  StopWatch watch;
  model_->WakeUp();
  const absl::Status appended = model_->AppendContext(items);
  trace_->context += watch.Lap();
  RETURN_IF_ERROR(appended);
  for (const ContextItem& item : items) trace_->context_tokens += item.features.rows();
  return absl::OkStatus();
}

}  // namespace bastion::drafter
