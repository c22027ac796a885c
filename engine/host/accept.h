// The acceptance walk (DDTree §3.3; WalkResult in kernels/ops/rows.h) on the CPU.
#ifndef BASTION_ENGINE_HOST_ACCEPT_H_
#define BASTION_ENGINE_HOST_ACCEPT_H_

#include "engine/model/device.h"
#include "kernels/ops/rows.h"

namespace bastion::nn {

// Walks the tree of each span in use.
void AcceptTrees(const kernels::Rows& rows, const WalkArgs& args);

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_HOST_ACCEPT_H_
