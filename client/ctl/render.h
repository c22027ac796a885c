// Formats the output of bastionctl. Thread-safe: no state.
#ifndef BASTION_CLIENT_CTL_RENDER_H_
#define BASTION_CLIENT_CTL_RENDER_H_

#include <string>

#include "bastion/v1/generation.pb.h"

namespace bastion {

// One line: tokens, rate, τ, time per stage, and why the answer ended.
[[nodiscard]] std::string StatisticsLine(const v1::Finished& finished);
// A header line and a line per model.
[[nodiscard]] std::string ModelTable(const v1::ListModelsResponse& models);

}  // namespace bastion

#endif  // BASTION_CLIENT_CTL_RENDER_H_
