// AttentionCase: attention of one step on the device. It creates operands for a shape, runs the
// kernel and computes the expected output with the oracle.
#ifndef BASTION_TESTS_KERNELS_CUDA_ATTENTION_ATTENTION_CASE_H_
#define BASTION_TESTS_KERNELS_CUDA_ATTENTION_ATTENTION_CASE_H_

#include <algorithm>
#include <limits>
#include <memory>
#include <random>
#include <vector>

#include "tests/kernels/cuda/attention/attention_shapes.h"
#include "tests/kernels/cuda/device_test_support.h"
#include "tests/kernels/oracle.h"

namespace bastion::kernels::cuda {

class AttentionCase {
 public:
  static constexpr float kUntouched = -7.0f;  // The output before the launch.

  AttentionCase(AttentionShape shape, DType dtype, uint32_t seed = 1)
      : shape_(std::move(shape)), dtype_(dtype) {
    std::mt19937 engine(seed);
    MakeSpans(engine);
    const size_t cache = size_t(pages_) * kPageTokens * shape_.kv_heads * shape_.head_dim;
    // Unused slots hold NaNs. If a kernel reads one, the NaN shows up in the output.
    keys_.assign(cache, std::numeric_limits<float>::quiet_NaN());
    values_ = keys_;
    query_.assign(size_t(capacity_) * width(), 1.0f);
    sink_query_ = query_;
    Fill(seed);
    int tokens = 0;
    for (const TestSpan& span : spans_) {
      tokens = std::max(tokens, span.cached + static_cast<int>(span.parents.size()));
    }
    chunks_ = AttentionChunks(tokens);
    const size_t scratch =
        AttentionScratchBytes(capacity_, shape_.query_heads, shape_.head_dim, chunks_);
    // A kernel that reads what no kernel wrote gets NaNs.
    scratch_ = std::make_unique<OnDevice<float>>(scratch / sizeof(float),
                                                 std::numeric_limits<float>::quiet_NaN());
    Upload();
  }

  [[nodiscard]] int width() const { return shape_.query_heads * shape_.head_dim; }
  [[nodiscard]] const std::vector<TestSpan>& spans() const { return spans_; }
  [[nodiscard]] const TestRows& rows() const { return *rows_; }
  [[nodiscard]] int rows_used() const { return used_; }

  // Sets the values of every token t and kv head to value(t, d), and makes all scores equal.
  template <typename Value>
  void SetValues(Value value) {
    for (size_t b = 0; b < spans_.size(); ++b) {
      ForEachElement(b, [&](int token, size_t at) {
        values_[at] = value(token, static_cast<int>(at % shape_.head_dim));
      });
    }
    std::fill(query_.begin(), query_.end(), 0.0f);
    std::fill(sink_query_.begin(), sink_query_.end(), 0.0f);
    Upload();
  }

  // Makes the queries for the sinks those for the window.
  void UseOneQuery() {
    sink_query_ = query_;
    Upload();
  }

  // Launches the kernels once and returns the output, [R, H, D].
  [[nodiscard]] std::vector<float> Run(Stream& stream, int multiprocessors, int capability) {
    const Typed output(dtype_, std::vector<float>(size_t(capacity_) * width(), kUntouched));
    AttentionArgs args;
    args.rows = rows_->rows();
    args.query = device_query_->data();
    args.output = output.data();
    args.cache = {dtype_, shape_.kv_heads, shape_.head_dim, device_keys_->data(),
                  device_values_->data()};
    args.query_heads = shape_.query_heads;
    args.window = shape_.window;
    args.sinks = shape_.sinks;
    args.sink_query = device_sink_query_->data();
    args.causal = shape_.causal;
    args.scale = scale();
    args.scratch = scratch_->data();
    args.max_chunks = chunks_;
    args.multiprocessors = multiprocessors;
    args.capability = capability;
    args.reads_ahead = true;
    Attention(args, stream);
    const absl::Status done = stream.Synchronize();
    EXPECT_TRUE(done.ok()) << done;
    return output.Read();
  }

  [[nodiscard]] std::vector<float> Expected() const {
    std::vector<float> output(size_t(capacity_) * width(), kUntouched);
    const std::vector<float> transposed = Transposed();
    std::vector<float> values = values_;
    std::vector<std::vector<uint64_t>> bits;
    std::vector<AttentionSpan> spans;
    int row = 0;
    for (const TestSpan& span : spans_) {
      bits.push_back(AncestorBits(span.parents));
      const bool causal = span.mask == RowMask::kFull && shape_.causal;
      AttentionSpan& expected = spans.emplace_back();
      expected.first_row = row;
      expected.rows = span.new_rows();
      expected.cached = span.cached;
      expected.pages = span.pages.data();
      expected.mask = causal ? RowMask::kCausal : span.mask;
      expected.words = static_cast<int>(span.parents.size() + 63) / 64;
      expected.earlier = span.earlier;
      row += span.new_rows();
    }
    for (size_t b = 0; b < spans.size(); ++b) {
      spans[b].ancestors = bits[b].data() + size_t(spans[b].earlier) * spans[b].words;
    }
    kernels::AttentionArgs args;
    args.query = query_.data();
    args.output = output.data();
    args.cache = {DType::kF32, shape_.kv_heads, shape_.head_dim,
                  const_cast<float*>(transposed.data()), values.data()};
    args.spans = spans.data();
    args.span_count = static_cast<int>(spans.size());
    args.positions = rows_->positions().data();
    args.query_heads = shape_.query_heads;
    args.query_stride = width();
    args.window = shape_.window;
    args.scale = scale();
    ThreadPool pool(1);
    Oracle().attention(args, pool);
    return output;
  }

  // Plain decoding of the path to row `i` of span `b`: a step of that row alone, after the keys
  // that it sees. REQUIRES: the mask of the span is not kFull.
  [[nodiscard]] AttentionCase PathTo(size_t b, int i) const {
    const TestSpan& span = spans_[b];
    std::vector<int> path;  // Tokens of the span, in the order of positions.
    for (int row = i; row >= 0; row = span.parents[row]) path.push_back(span.cached + row);
    for (int token = span.cached - 1; token >= 0; --token) path.push_back(token);
    std::reverse(path.begin(), path.end());
    AttentionShape shape = shape_;
    shape.spans = {{static_cast<int>(path.size()) - 1, 1, Form::kChain}};
    AttentionCase plain(shape, dtype_);
    for (int key = 0; key < static_cast<int>(path.size()); ++key) {
      for (int g = 0; g < shape_.kv_heads; ++g) {
        const size_t from = RowOf(span, path[key], g), to = plain.RowOf(plain.spans_[0], key, g);
        std::copy_n(keys_.begin() + from, shape_.head_dim, plain.keys_.begin() + to);
        std::copy_n(values_.begin() + from, shape_.head_dim, plain.values_.begin() + to);
      }
    }
    size_t row = i - span.earlier;
    for (size_t before = 0; before < b; ++before) row += spans_[before].new_rows();
    std::copy_n(query_.begin() + row * width(), width(), plain.query_.begin());
    std::copy_n(sink_query_.begin() + row * width(), width(), plain.sink_query_.begin());
    plain.Upload();
    return plain;
  }

 private:
  // Where keys_ and values_ have a token of a span.
  [[nodiscard]] size_t RowOf(const TestSpan& span, int token, int kv_head) const {
    const size_t page = span.pages[token / kPageTokens];
    return ((page * shape_.kv_heads + kv_head) * kPageTokens + token % kPageTokens) *
           shape_.head_dim;
  }

  // The step has room for two more spans and three more rows than it uses.
  [[nodiscard]] int span_capacity() const { return static_cast<int>(spans_.size()) + 2; }
  [[nodiscard]] float scale() const {
    return 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
  }

  void MakeSpans(std::mt19937& engine) {
    for (const SpanShape& span : shape_.spans) {
      std::vector<int> parents = ChainParents(span.rows);
      if (span.form == Form::kTree) {
        for (int i = 1; i < span.rows; ++i) parents[i] = static_cast<int>(engine() % i);
      }
      const RowMask mask = span.form == Form::kChain   ? RowMask::kCausal
                           : span.form == Form::kBlock ? RowMask::kFull
                                                       : RowMask::kAncestors;
      const int count = (span.cached + span.rows + kPageTokens - 1) / kPageTokens;
      spans_.push_back({span.cached, mask, parents, std::vector<int32_t>(count), {}, span.earlier});
      pages_ += count;
      used_ += spans_.back().new_rows();
    }
    std::vector<int32_t> order(pages_ + 1);  // One page is unused.
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), engine);
    size_t next = 0;
    for (TestSpan& span : spans_) {
      for (int32_t& page : span.pages) page = order[next++];
    }
    ++pages_;
    capacity_ = used_ + 3;
    rows_ = std::make_unique<TestRows>(spans_, capacity_, span_capacity());
  }

  // Fills the operands with random values. The values of a span depend only on its own shape, not
  // on the other spans.
  void Fill(uint32_t seed) {
    size_t row = 0;
    for (size_t b = 0; b < spans_.size(); ++b) {
      const uint32_t own = seed + 97 * spans_[b].cached + 89 * spans_[b].parents.size();
      const size_t rows = spans_[b].new_rows();
      const size_t tokens = spans_[b].cached + spans_[b].parents.size();
      const size_t row_elements = size_t(shape_.kv_heads) * shape_.head_dim;
      const std::vector<float> query = Rounded(dtype_, RandomFloats(rows * width(), own + 1, 1.5f));
      std::copy(query.begin(), query.end(), query_.begin() + row * width());
      const std::vector<float> other = Rounded(dtype_, RandomFloats(rows * width(), own + 4, 1.5f));
      std::copy(other.begin(), other.end(), sink_query_.begin() + row * width());
      row += rows;
      const std::vector<float> keys = Rounded(dtype_, RandomFloats(tokens * row_elements, own + 2));
      const std::vector<float> values =
          Rounded(dtype_, RandomFloats(tokens * row_elements, own + 3));
      size_t next = 0;
      ForEachElement(b, [&](int, size_t at) {
        keys_[at] = keys[next];
        values_[at] = values[next++];
      });
    }
  }

  // Calls visit(token, index in keys_ and values_) for every element of span b, token by token.
  template <typename Visit>
  void ForEachElement(size_t b, Visit visit) const {
    const int tokens = spans_[b].cached + static_cast<int>(spans_[b].parents.size());
    for (int token = 0; token < tokens; ++token) {
      const size_t page = spans_[b].pages[token / kPageTokens];
      for (int g = 0; g < shape_.kv_heads; ++g) {
        const size_t row = (page * shape_.kv_heads + g) * kPageTokens + token % kPageTokens;
        for (int d = 0; d < shape_.head_dim; ++d) visit(token, row * shape_.head_dim + d);
      }
    }
  }

  // The keys in the layout of the CPU kernels, [pages, G, D, 16].
  [[nodiscard]] std::vector<float> Transposed() const {
    std::vector<float> transposed(keys_.size());
    const size_t dim = shape_.head_dim, block = kPageTokens * dim;
    for (size_t i = 0; i < keys_.size(); ++i) {
      const size_t token = i % block / dim, d = i % dim;
      transposed[i / block * block + d * kPageTokens + token] = keys_[i];
    }
    return transposed;
  }

  [[nodiscard]] static std::vector<uint64_t> AncestorBits(const std::vector<int>& parents) {
    const size_t words = (parents.size() + 63) / 64;
    std::vector<uint64_t> bits(parents.size() * words);
    for (size_t i = 0; i < parents.size(); ++i) {
      for (int j = static_cast<int>(i); j >= 0; j = parents[j]) {
        bits[i * words + j / 64] |= uint64_t{1} << (j % 64);
      }
    }
    return bits;
  }

  void Upload() {
    device_query_ = std::make_unique<Typed>(dtype_, query_);
    device_sink_query_ = std::make_unique<Typed>(dtype_, sink_query_);
    device_keys_ = std::make_unique<Typed>(dtype_, keys_);
    device_values_ = std::make_unique<Typed>(dtype_, values_);
  }

  AttentionShape shape_;
  DType dtype_;
  int pages_ = 0, used_ = 0, capacity_ = 0, chunks_ = 0;
  std::vector<TestSpan> spans_;
  // [R, H, D]; keys and values [pages, G, 16, D]
  std::vector<float> query_, sink_query_, keys_, values_;
  std::unique_ptr<TestRows> rows_;
  std::unique_ptr<Typed> device_query_, device_sink_query_, device_keys_, device_values_;
  std::unique_ptr<OnDevice<float>> scratch_;
};

}  // namespace bastion::kernels::cuda

#endif  // BASTION_TESTS_KERNELS_CUDA_ATTENTION_ATTENTION_CASE_H_
