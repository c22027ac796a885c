// The same edits as LogitEdits makes, as a list for a device to make them: at most one for a token
// of a row.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_CUDA_EDIT_LIST_H_
#define BASTION_VERIFIER_SERVICE_MODEL_CUDA_EDIT_LIST_H_

#include <vector>

#include "absl/types/span.h"
#include "kernels/cuda/ops.h"
#include "verifier_service/verify/choose_tokens.h"

namespace bastion::verifier {

// Of all rows of `trees`, each as if the path to it had been written; histories are as before when
// this returns.
[[nodiscard]] std::vector<kernels::cuda::LogitEdit> EditList(absl::Span<const TreeRows> trees);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_CUDA_EDIT_LIST_H_
