// The edits of LogitEdits as a list that a GPU applies: at most one edit per token of a row.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_CUDA_EDIT_LIST_H_
#define BASTION_VERIFIER_SERVICE_MODEL_CUDA_EDIT_LIST_H_

#include <vector>

#include "absl/types/span.h"
#include "kernels/cuda/ops.h"
#include "verifier_service/verify/choose_tokens.h"

namespace bastion::verifier {

// The edits of all rows of `trees`, each as if the path to that row had been committed. Histories
// are extended during the call and restored.
[[nodiscard]] std::vector<kernels::cuda::LogitEdit> EditList(absl::Span<const TreeRows> trees);

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_CUDA_EDIT_LIST_H_
