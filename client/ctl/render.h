// What bastionctl prints, as text.
#ifndef BASTION_CLIENT_CTL_RENDER_H_
#define BASTION_CLIENT_CTL_RENDER_H_

#include <string>

#include "protos/bastion/v1/generation.pb.h"

namespace bastion {

// One line: tokens, rate, τ, where the time went, why it ended.
[[nodiscard]] std::string StatisticsLine(const v1::Finished& finished);
[[nodiscard]] std::string ModelTable(const v1::ListModelsResponse& models);

}  // namespace bastion

#endif  // BASTION_CLIENT_CTL_RENDER_H_
