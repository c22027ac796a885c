// Device: where a model runs. It has memory, and the operations that engine/model is written over.
// The operations of a decoder block are on Activations, and those after the LM head on Logits.
//
// Operations take effect in order. A device may do them later: results are in host memory after
// Finish() or Await(). A device that records (records() is true) runs the operations that a
// function puts in Run() as one recorded unit from then on. So they must depend only on the key,
// and on memory that is filled before.
//
// Not thread-safe: one engine uses a device at a time. Shape legend: common/base/ids.h.
#ifndef BASTION_ENGINE_MODEL_DEVICE_H_
#define BASTION_ENGINE_MODEL_DEVICE_H_

#include <algorithm>
#include <compare>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/hub/model_config.h"
#include "common/stages/features.h"
#include "common/stages/stage_data.h"
#include "engine/model/buffer.h"
#include "engine/model/engine_options.h"
#include "engine/model/kv_cache.h"
#include "engine/model/matrix.h"
#include "kernels/ops/backend.h"
#include "kernels/ops/pack.h"
#include "kernels/ops/rows.h"

namespace bastion::nn {

// Upper limits of one step (step.h).
struct StepCapacity {
  int rows = 0;    // R, a multiple of 64
  int spans = 0;   // B
  int pages = 0;   // Pages of the KV cache. Padding rows use page number `pages`.
  int tokens = 0;  // Tokens of one span, cached ones included.
  // Rows of one tree, earlier ones included. A multiple of 64.
  int tree_rows = 0;

  // Entries in the page tables of all spans, which may share pages.
  [[nodiscard]] size_t table_entries() const {
    return static_cast<size_t>(spans) * std::min(pages, PagesFor(tokens));
  }
};

// Where a norm stores the rows that it reads: one layer's columns of the feature rows.
struct Tap {
  void* to = nullptr;  // [R, C] of `type`, rows `stride` elements apart. Null: nowhere.
  int stride = 0;
  DType type = DType::kF32;
};

// The projection of a block's input to queries, keys and values.
struct QkvArgs {
  const Norm* norm = nullptr;  // Null: the rows that Normalize() left, or the joined rows.
  bool joined = false;         // Reads the joined rows.
  Tap tap = {};                // Stores the residual stream before the norm.
  const Matrix* qkv = nullptr;
  const Buffer *query_norm = nullptr, *key_norm = nullptr;  // [D] floats, or no memory
  float epsilon = 0;                                        // For the norms of the heads.
  const float* rotary = nullptr;  // [positions, rotary_dims]: cosines, then sines
  int rotary_dims = 0;
  kernels::KvLayer cache;
};

struct AttendArgs {
  kernels::KvLayer cache;
  const float* rotary = nullptr;  // As in QkvArgs, for attention with sinks.
  int rotary_dims = 0;
  int window = 0;       // Positions that a row attends to, itself included. 0: all.
  bool causal = false;  // A kFull span is treated as kCausal.
};

// The experts of a block and the norm before them.
struct ExpertArgs {
  const Norm* norm = nullptr;
  const Matrix *router = nullptr, *gate_up = nullptr, *down = nullptr;
  const hub::ExpertsConfig* config = nullptr;
  int layer = 0;
};

class Logits;

// The activations of one decoder, and the operations of its blocks. The residual stream is a value
// of the device: it may hold sums that are not added yet, and which operation adds them is the
// device's choice. All operations work on the rows [0, rows.row_capacity).
class Activations {
 public:
  virtual ~Activations() = default;

  // The residual stream = the rows of the table [V, C] of `type` for the tokens.
  virtual void Embed(const kernels::Rows& rows, const void* table, DType type) = 0;
  // The residual stream *= factor.
  virtual void Scale(const kernels::Rows& rows, float factor) = 0;
  // The residual stream = input Wᵀ, without the bias. `input` has the type input_type().
  virtual void Project(const kernels::Rows& rows, const Matrix& matrix, const void* input) = 0;
  // Norms the residual stream for StoreKeysValues, Qkv without a norm, or Head.
  virtual void Normalize(const kernels::Rows& rows, const Norm& norm, const Tap& tap) = 0;

  // ---- joined rows (hub::JoinConfig) ----
  // The normed rows become part `part` of the joined rows.
  virtual void Keep(const kernels::Rows& rows, int part) = 0;
  // Joins the kept parts: rows of JoinConfig::parts · C elements.
  virtual void Join(const kernels::Rows& rows) = 0;
  // The residual stream = the normed rows.
  virtual void Restart(const kernels::Rows& rows) = 0;
  // The residual stream = joined rows Wᵀ.
  virtual void ProjectJoined(const kernels::Rows& rows, const Matrix& matrix) = 0;
  // The residual stream = [row, row before it] Wᵀ, of the residual stream as it was. The first of
  // each JoinConfig::shift_rows rows is its own predecessor. `norm` is any norm.
  virtual void Shift(const kernels::Rows& rows, const Matrix& matrix, const Norm& norm) = 0;

  // ---- convolutions (hub::ConvolutionConfig) ----
  // Norms the residual stream, projects the normed rows to the coefficients of both sides, and
  // convolves the normed rows with side 0.
  virtual void ConvolveInput(const kernels::Rows& rows, const Norm& norm, const Tap& tap,
                             const Convolution& convolution) = 0;

  // Norm, product, norms of the heads, rotary embedding. Stores keys and values in the cache.
  virtual void Qkv(const kernels::Rows& rows, const QkvArgs& args) = 0;
  // The same for keys and values of the normed rows, without queries. No Attend may follow in one
  // recording (Device::Run): it reads cached tokens before the work in front of it is over.
  virtual void StoreKeysValues(const kernels::Rows& rows, const QkvArgs& args) = 0;
  // Attention of the queries (kernels::AttentionArgs).
  virtual void Attend(const kernels::Rows& rows, const AttendArgs& args) = 0;
  // The residual stream += attention Wᵀ, convolved with side 1 and the coefficients of the last
  // ConvolveInput if `convolution` is not null.
  virtual void AddAttention(const kernels::Rows& rows, const Matrix& output,
                            const Convolution* convolution) = 0;
  // Norm, product and activation: the inner rows of the MLP. Null: the rows are normed already.
  virtual void GateUp(const kernels::Rows& rows, const Norm* norm, const Matrix& gate_up,
                      hub::MlpKind kind) = 0;
  // The residual stream += inner rows Wᵀ, convolved as in AddAttention.
  virtual void AddMlp(const kernels::Rows& rows, const Matrix& down,
                      const Convolution* convolution) = 0;
  // The residual stream += a mixture of experts (Qwen3-MoE): a router chooses some of them for each
  // row, and the row gets the weighted sum of their MLPs, added in ascending order.
  virtual void AddExperts(const kernels::Rows& rows, const ExpertArgs& args) = 0;
  // The normed rows += SiLU(normed rows Wᵀ): a residual block of Medusa.
  virtual void AddSilu(const kernels::Rows& rows, const Matrix& matrix) = 0;
  // Logits of the normed rows wanted[i], i < rows; null: of the first rows.
  virtual void Head(const Matrix& head, const int32_t* wanted, int rows, Logits& logits) = 0;

  // How many distinct experts the rows of the last step chose, as a mean over the layers with
  // experts. Valid after the step.
  [[nodiscard]] virtual double touched_experts() const = 0;
};

// The edits of one step's logits before tokens are chosen (kernels/ops/rows.h). At most one edit
// per token of a row, and at most one mask per row.
struct LogitEdits {
  std::vector<kernels::LogitEdit> edits;
  std::vector<uint32_t> sets;  // [S, ceil(V / 32)]: bit i of word w is token 32 w + i
  std::vector<kernels::MaskedRow> masked;
  std::vector<int> kept;  // Masked rows that Restore() restores.
};

// Memory for logits [R, V] of a step, and the operations on them.
class Logits {
 public:
  virtual ~Logits() = default;

  // Memory for `rows` rows. A device without recording discards the contents if it grows.
  virtual float* Reserve(int rows) = 0;
  [[nodiscard]] virtual int vocabulary() const = 0;

  // Edits the logits in place, first `edits`, then the masks. Restore undoes it.
  [[nodiscard]] virtual absl::Status Edit(const LogitEdits& edits) = 0;
  virtual void Restore() = 0;

  // Chooses a token for each row (kernels::ChooseArgs). `used` is [1] on the device: later rows are
  // padding.
  struct Choice {
    int rows = 0;
    const int32_t* used = nullptr;
    const kernels::ChoiceRule* rules = nullptr;  // [R]
    int32_t* tokens = nullptr;                   // [R]
  };
  virtual void Choose(const Choice& choice) = 0;

  // The most probable tokens of each row (kernels::TopKArgs), in host memory.
  struct Ranking {
    int rows = 0;
    const int32_t* used = nullptr;
    const kernels::ChoiceRule* coupling = nullptr;  // [R]
    int candidates = 0;                             // At most max_candidates().
    int32_t* tokens = nullptr;                      // [R, K]
    float* log_probs = nullptr;                     // [R, K]
    const TokenId* ids =
        nullptr;  // [V] on the device, ascending: the token of each column, or null
  };
  virtual void Rank(const Ranking& ranking) = 0;
  [[nodiscard]] virtual int max_candidates() const = 0;

  // A token of a row, and how many of the row's most probable tokens are wanted as well.
  struct Scored {
    int row = 0;
    TokenId token = 0;
    int top = 0;  // At most max_candidates() are returned.
  };
  // The log-probabilities for each entry, under the softmax of the row as it is. A row with NaNs
  // may have NaN and no tokens. Waits.
  [[nodiscard]] virtual absl::StatusOr<std::vector<TokenLogprobs>> Score(
      absl::Span<const Scored> scored) = 0;

  // Multiplies the logits of the first `rows` rows by `factor` and caps them (kernels::ScaleArgs).
  virtual void Scale(int rows, float factor, float cap) = 0;
  // Copies the first `rows` rows to host memory [rows, V].
  virtual void CopyRows(int rows, float* to) = 0;
  // A row [V] in host memory, valid until the next call. The caller may modify it.
  [[nodiscard]] virtual absl::StatusOr<float*> Row(int row) = 0;
};

// The walk over the trees of a step: results [B], and paths [R], where paths[first_rows[b] + k] is
// the k-th accepted node of span b, as a row within the span.
struct WalkArgs {
  const int32_t* choices = nullptr;  // [R]
  kernels::WalkResult* results = nullptr;
  int32_t* paths = nullptr;
  // Copies in host memory. On the host, the same memory.
  kernels::WalkResult* host_results = nullptr;
  int32_t* host_paths = nullptr;
};

// What a commit moves and keeps. In every layer, the key and the value of the k-th accepted node go
// to the slot of row k + 1 of its span. The features of the roots and the accepted nodes of all
// spans go to consecutive rows.
struct CommitArgs {
  WalkArgs walk;
  const KvCache* cache = nullptr;  // Null: only features.
  const void* features = nullptr;  // [R, F] of `type`
  void* kept = nullptr;            // [rows kept, F] of `type`
  int feature_width = 0;           // F. 0: no features.
  DType type = DType::kF32;
};

// Memory that another process can map.
struct SharedMemory {
  Buffer buffer;
  int descriptor = -1;  // The caller closes it.
};

class Device {
 public:
  virtual ~Device() = default;

  // ---- what it is ----
  // A description for logs.
  [[nodiscard]] virtual std::string Describe() const = 0;
  // Names the order of sums in models of `formats`. Devices with one name give a step the same
  // bits, if it says that products are exact. Empty on the host.
  [[nodiscard]] virtual std::string DescribeSums(const Formats& formats) const = 0;
  // Whether its memory is the host's.
  [[nodiscard]] virtual bool on_host() const = 0;
  // INVALID_ARGUMENT or UNIMPLEMENTED if models of `config` cannot run here with `options`.
  [[nodiscard]] virtual absl::Status Supports(const hub::ModelConfig& config,
                                              const EngineOptions& options) const = 0;
  // The type of the inputs of products, if the activations have type `activations`.
  [[nodiscard]] virtual DType input_type(DType activations) const = 0;
  // The kernels and the threads of the host.
  [[nodiscard]] const HostKernels& host() const { return host_; }
  // Measures bandwidth and the rate of products with `matrix`. Takes less than a second.
  [[nodiscard]] virtual DevicePeaks MeasurePeaks(const Matrix& matrix) = 0;

  // ---- memory ----
  // Zeroed memory for operations. RESOURCE_EXHAUSTED if there is not enough; the message names
  // `what`. Memory of the host is allocated at the first write.
  [[nodiscard]] virtual absl::StatusOr<Buffer> Allocate(size_t bytes, const char* what,
                                                        Paging paging = Paging::kSmall) = 0;
  // Zeroed host memory that operations can read and write at the same address.
  [[nodiscard]] virtual absl::StatusOr<Buffer> AllocateOnHost(size_t bytes, const char* what) = 0;
  // Memory of the device, and memory of the host to which or from which it is copied. On the host,
  // the two are the same.
  struct Mirrored {
    Buffer device, host;
  };
  [[nodiscard]] absl::StatusOr<Mirrored> AllocateMirrored(size_t bytes, const char* what);
  // UNIMPLEMENTED if the device cannot share memory.
  [[nodiscard]] virtual absl::StatusOr<SharedMemory> AllocateShared(size_t bytes,
                                                                    const char* what) = 0;
  // How a process reads features of `type` in this device's memory. Null: it cannot.
  [[nodiscard]] virtual std::unique_ptr<DeviceReader> MakeReader(DType type) const = 0;
  // Copies between any two addresses of host or device memory.
  virtual void Copy(void* to, const void* from, size_t bytes) = 0;

  // ---- weights ----
  // Bytes of a packed matrix.
  [[nodiscard]] virtual size_t MatrixBytes(WeightFormat format, int rows, int columns) const = 0;
  // Whether a packed matrix of formats.weights is also a row-major table of formats.activations.
  [[nodiscard]] virtual bool IsTable(const Formats& formats) const = 0;
  // Packs `parts`, one below the other, into matrix `index` of `to`. Waits.
  [[nodiscard]] virtual absl::Status Pack(absl::Span<const kernels::SourceMatrix> parts,
                                          const Matrix& to, int index) = 0;
  // Converts elements [first, first + count) of `from` to `type`, at `to`. Waits.
  struct Elements {
    int64_t first = 0;
    int64_t count = 0;
  };
  [[nodiscard]] virtual absl::Status Convert(const kernels::SourceMatrix& from, Elements elements,
                                             DType type, void* to) = 0;
  // Bytes of memory that are available for weights. 0: not known.
  [[nodiscard]] virtual int64_t available_bytes() const = 0;

  // ---- operations ----
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<Activations>> CreateActivations(
      const hub::ModelConfig& config, const EngineOptions& options,
      const StepCapacity& capacity) = 0;
  [[nodiscard]] virtual absl::StatusOr<std::unique_ptr<Logits>> CreateLogits(int rows,
                                                                             int vocabulary) = 0;
  virtual void Walk(const kernels::Rows& rows, const WalkArgs& args) = 0;
  virtual void Commit(const kernels::Rows& rows, const CommitArgs& args) = 0;

  // ---- running ----
  // True if Run records. The caller then runs every key once at startup, and pads rows to few
  // different numbers (row_buckets.h).
  [[nodiscard]] virtual bool records() const = 0;
  struct Key {
    const void* owner = nullptr;
    int kind = 0;
    int rows = 0;
    [[nodiscard]] friend auto operator<=>(const Key&, const Key&) = default;
  };
  // Runs the operations of `put`, or their recording.
  [[nodiscard]] virtual absl::Status Run(const Key& key, absl::FunctionRef<void()> put) = 0;
  // Forgets the recordings of `owner`.
  virtual void Forget(const void* owner) = 0;
  // Waits for all operations. INTERNAL if any has failed since the last call.
  [[nodiscard]] virtual absl::Status Finish() = 0;

  // Stores *value at *flag, which is host memory, after all earlier operations. Await waits until
  // it is `value` or more.
  virtual void Raise(const uint64_t* value, uint64_t* flag) = 0;
  [[nodiscard]] virtual absl::Status Await(const uint64_t* flag, uint64_t value) = 0;

  // Mark records a point in time between operations. Seconds waits for the later of two marks and
  // returns the time between them. Not within Run().
  [[nodiscard]] virtual int Mark() = 0;
  [[nodiscard]] virtual absl::StatusOr<double> Seconds(int from, int to) = 0;
  virtual void ForgetMarks() = 0;

  // Hints that a step begins, or that it is over. They wake the host's threads, or let them sleep.
  virtual void Wake() {}
  virtual void Rest() {}

 protected:
  explicit Device(const HostKernels& host) : host_(host) {}

 private:
  const HostKernels host_;
};

}  // namespace bastion::nn

#endif  // BASTION_ENGINE_MODEL_DEVICE_H_
