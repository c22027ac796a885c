// One step of the target on a GPU: its memory, and the graphs that are recorded for every number of
// rows it comes in.
#ifndef BASTION_VERIFIER_SERVICE_MODEL_CUDA_STEP_H_
#define BASTION_VERIFIER_SERVICE_MODEL_CUDA_STEP_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "common/cuda/device_decoder.h"
#include "common/nn/device.h"
#include "common/stages/stage_data.h"
#include "kernels/cuda/ops.h"
#include "verifier_service/features/cuda_feature_ring.h"

namespace bastion::verifier {

class CudaStep {
 public:
  // `gpu` must outlive it. Errors: LoadCudaTarget.
  [[nodiscard]] static absl::StatusOr<std::unique_ptr<CudaStep>> Load(
      const std::string& folder, const nn::EngineOptions& options, cuda::Gpu& gpu);

  // Records the graphs of all sizes, features being the outputs of `layers`.
  [[nodiscard]] absl::Status Record(const std::vector<int>& layers);

  // Sends `contents` and runs the blocks over them.
  [[nodiscard]] absl::Status RunForward(const cuda::StepContents& contents);
  // The logits of the last forward's `rows` rows.
  void RunHead(int rows);
  // Edits them before anything is chosen; UndoEdits makes them what the model thought.
  [[nodiscard]] absl::Status EditLogits(const std::vector<kernels::cuda::LogitEdit>& edits);
  [[nodiscard]] absl::Status UndoEdits();
  // Choice, walk and commit, which keeps at most `most_kept` rows. When this returns results() and
  // paths() are there.
  [[nodiscard]] absl::Status RunDecision(int rows, int most_kept);
  // When this returns kept_features() of `rows` rows are there, too, and the next step may be sent.
  [[nodiscard]] absl::Status AwaitCommit(int rows);

  // Keeps the features of all `rows` rows of the last forward, and waits for it.
  [[nodiscard]] absl::Status KeepAllFeatures(int rows);

  // A row of logits [V], copied to host_logits().
  [[nodiscard]] absl::StatusOr<float*> CopyLogits(int row);
  [[nodiscard]] float* host_logits() const { return host_logits_.as<float>(); }

  // Of the spans of the last step, and by row (kernels/cuda/ops.h: WalkArgs).
  [[nodiscard]] const kernels::cuda::WalkResult* results() const {
    return host_results_.as<kernels::cuda::WalkResult>();
  }
  [[nodiscard]] const int32_t* paths() const { return host_paths_.as<int32_t>(); }
  // [rows kept, F] of the engine's type.
  [[nodiscard]] const char* kept_features() const { return kept_features_.as<char>(); }
  [[nodiscard]] size_t feature_row_bytes() const { return feature_width() * element(); }
  // Where they lie once more for processes on this GPU.
  [[nodiscard]] const CudaFeatureRing& ring() const { return ring_; }

  [[nodiscard]] const hub::ModelConfig& config() const { return decoder_->config(); }
  [[nodiscard]] nn::ForwardCost Cost() const;
  // Bytes a second of the memory by its clock, FLOP/s of a product of many rows as measured.
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
  void PutForward(int rows);
  void PutDecision(int rows);
  [[nodiscard]] kernels::cuda::CommitArgs CommitOf(int rows) const;
  // Sends the features that the last decision keeps to the ring, if there is room.
  void PutRing(int rows, int most_kept);
  [[nodiscard]] const Graphs& GraphsFor(int rows) const;
  [[nodiscard]] size_t feature_width() const { return taps_.layers.size() * config().dims.hidden; }
  [[nodiscard]] size_t element() const { return BytesPerElement(decoder_->dtype()); }

  cuda::Gpu& gpu_;
  cuda::DeviceVocabulary vocabulary_;
  std::unique_ptr<cuda::DeviceDecoder> decoder_;
  cuda::StepInputs inputs_;
  std::vector<int> buckets_;
  std::map<int, Graphs> graphs_;  // By rows.
  cuda::FeatureTaps taps_;
  Memory features_;                      // [R, F]
  Memory kept_features_;                 // [R, F], the host's
  Memory logits_;                        // [R, V]
  Memory host_logits_;                   // [V], the host's
  Memory choices_, paths_, host_paths_;  // [R]
  Memory results_, host_results_;        // [B]
  Memory choose_scratch_;
  Memory flags_;  // [3], the host's: accepted, committed, in the ring
  CudaFeatureRing ring_;
  Memory edits_, before_;  // Of the last step: as many as it had
  int edit_count_ = 0;
};

}  // namespace bastion::verifier

#endif  // BASTION_VERIFIER_SERVICE_MODEL_CUDA_STEP_H_
