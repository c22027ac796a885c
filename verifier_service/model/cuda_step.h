// One step of the target on a GPU: its memory, and the CUDA graphs that are recorded for each row
// bucket (engine/cuda/row_buckets.h). Shape legend: common/base/ids.h.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_CUDA_STEP_H_
#define BASTION_VERIFIER_SERVICE_MODEL_CUDA_STEP_H_

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "common/stages/stage_data.h"
#include "engine/cuda/device_decoder.h"
#include "engine/model/device.h"
#include "kernels/cuda/ops.h"
#include "verifier_service/features/cuda_feature_ring.h"
#include "verifier_service/model/cuda_logit_edits.h"

namespace bastion::verifier {

class CudaStep {
 public:
  // `gpu` must outlive the step. Errors: see LoadCudaTarget.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaStep>> Load(
      const std::string& folder, const nn::EngineOptions& options, cuda::Gpu& gpu);

  // Records the graphs of all buckets. Features are the outputs of `layers`.
  [[nodiscard]] absl::Status Record(const std::vector<int>& layers);

  // Copies `contents` to the GPU and runs the decoder layers over its rows.
  [[nodiscard]] absl::Status RunForward(const cuda::StepContents& contents);
  // Computes the logits of the first `rows` rows of the last forward.
  void RunHead(int rows);
  // Edits the logits before tokens are chosen.
  [[nodiscard]] CudaLogitEdits& edits() { return *edits_; }
  // Chooses tokens for the first `rows` rows, those of the trees, walks the trees and commits. At
  // most `max_kept` rows are kept, including those of KeepAlso. Returns when results() and paths()
  // are valid.
  [[nodiscard]] absl::Status RunDecision(int rows, int max_kept);
  // Copies the features of rows [first, first + rows) of the last forward to kept_features(), after
  // the `kept` rows that the decision keeps, and waits.
  [[nodiscard]] absl::Status KeepAlso(int first, int rows, int kept);
  // Waits until kept_features() holds `rows` rows. The next step may then be sent.
  [[nodiscard]] absl::Status AwaitCommit(int rows);

  // For a step without a decision: copies the features of all `rows` rows of the last forward to
  // kept_features(), and waits.
  [[nodiscard]] absl::Status KeepAllFeatures(int rows);

  // Copies a row of logits [V] to host_logits() and returns it.
  [[nodiscard]] absl::StatusOr<float*> CopyLogits(int row);
  [[nodiscard]] float* host_logits() const { return host_logits_.as<float>(); }

  // Results by span of the last step, and paths by row (WalkArgs in kernels/cuda/ops.h).
  [[nodiscard]] const kernels::cuda::WalkResult* results() const {
    return host_results_.as<kernels::cuda::WalkResult>();
  }
  [[nodiscard]] const int32_t* paths() const { return host_paths_.as<int32_t>(); }
  // [rows kept, F] in the engine's type.
  [[nodiscard]] const char* kept_features() const { return kept_features_.as<char>(); }
  [[nodiscard]] size_t feature_row_bytes() const { return feature_width() * element(); }
  // The ring with a second copy of the kept features, for processes on this GPU.
  [[nodiscard]] const CudaFeatureRing& ring() const { return ring_; }

  [[nodiscard]] const hub::ModelConfig& config() const { return decoder_->config(); }
  [[nodiscard]] nn::ForwardCost Cost() const;
  // Experts that the rows of the last step chose (cuda::DeviceExperts::touched).
  [[nodiscard]] double touched_experts() const { return decoder_->touched_experts(); }
  // The memory bandwidth in bytes/s, computed from the memory clock, and the measured FLOP/s of a
  // matrix product with many rows.
  [[nodiscard]] DevicePeaks MeasurePeaks();

 private:
  using Memory = kernels::cuda::Memory;
  struct Graphs {
    std::unique_ptr<kernels::cuda::Graph> forward, head, decision;
  };

  explicit CudaStep(cuda::Gpu& gpu) : gpu_(gpu) {}

  [[nodiscard]] absl::Status Allocate();
  [[nodiscard]] absl::Status Prepare(bool show_progress);
  [[nodiscard]] absl::StatusOr<Graphs> RecordFor(int rows);
  // Put the kernels for `rows` rows on the stream, to run or to record them.
  void PutForward(int rows);
  void PutDecision(int rows);
  [[nodiscard]] kernels::cuda::CommitArgs MakeCommitArgs(int rows) const;
  // Copies `rows` features from row `first` on to row `place` of `to`.
  void CopyFeatures(int first, int rows, char* to, int place);
  // Copies the features kept by the last decision to the ring, if there is room.
  void PutRing(int rows, int max_kept);
  [[nodiscard]] const Graphs& GraphsFor(int rows) const;
  [[nodiscard]] size_t feature_width() const { return taps_.layers.size() * config().dims.hidden; }
  [[nodiscard]] size_t element() const { return BytesPerElement(decoder_->dtype()); }

  cuda::Gpu& gpu_;
  cuda::DeviceVocabulary vocabulary_;
  std::unique_ptr<cuda::DeviceDecoder> decoder_;
  cuda::StepInputs inputs_;
  std::vector<int> buckets_;
  std::map<int, Graphs> graphs_;  // By the bucket's row count.
  cuda::FeatureTaps taps_;
  Memory features_;                      // [R, F]
  Memory kept_features_;                 // [R, F], host memory
  Memory logits_;                        // [R, V]
  Memory host_logits_;                   // [V], host memory
  Memory choices_, paths_, host_paths_;  // [R]
  Memory results_, host_results_;        // [B]
  Memory choose_scratch_;
  Memory flags_;  // [3], host memory: accepted, committed, copied to the ring
  CudaFeatureRing ring_;
  char* in_ring_ = nullptr;  // Where this step's features begin in the ring; null: not there.
  std::optional<CudaLogitEdits> edits_;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_CUDA_STEP_H_
