// TextPool: which texts a step uses. It only handles numbers of texts; TextBatches holds what the
// target computed for them.
//
// A pool of texts is open, and the others wait. A step draws its texts uniformly from the pool, but
// no text in two steps in a row. After a number of steps that use it, a text leaves the pool, and
// the one that has waited longest takes its place. The first texts stay for fewer steps, so that
// texts leave one after the other. The choices are a function of the seed and the step.
//
// Not thread-safe.
#ifndef BASTION_TOOLS_TRAIN_LOOP_TEXT_POOL_H_
#define BASTION_TOOLS_TRAIN_LOOP_TEXT_POOL_H_

#include <cstdint>
#include <deque>
#include <vector>

namespace bastion::train {

struct TextPoolOptions {
  int texts = 0;  // All texts.
  int size = 0;   // Texts in the pool. At most `texts`.
  int batch = 0;  // Texts of one step. At most size / 2.
  int uses = 0;   // Steps that use a text before it leaves the pool.
  uint64_t seed = 1;
};

class TextPool {
 public:
  explicit TextPool(const TextPoolOptions& options);

  // The texts of the next step. The first call is for step 1.
  [[nodiscard]] const std::vector<int>& Next();
  // The step of the last call of Next. 0: none.
  [[nodiscard]] int64_t step() const { return step_; }
  // Whether a later step may use the text before it has to wait.
  [[nodiscard]] bool Holds(int text) const { return left_[text] > 0; }

 private:
  // Texts whose uses are over change places with texts that wait.
  void Replace();

  const TextPoolOptions options_;
  std::vector<int> pool_;    // The texts of the last step are at the end.
  std::deque<int> waiting_;  // The longest waiting first.
  std::vector<int> left_;    // Uses that each text has left in the pool. 0: it waits.
  std::vector<int> drawn_;   // The texts of the last step.
  int64_t step_ = 0;
};

// The largest pool of `row_counts.size()` texts or fewer that never has more than `rows` rows,
// whichever texts are in it.
[[nodiscard]] int PoolSize(std::vector<int64_t> row_counts, int64_t rows);

}  // namespace bastion::train

#endif  // BASTION_TOOLS_TRAIN_LOOP_TEXT_POOL_H_
