
#include "common/base/random.h"
#include "tests/kernels/cuda/choose/special_values.h"
#include "tests/kernels/cuda/device_test_support.h"

namespace bastion::kernels::cuda {
namespace {

class EditsTest : public DeviceTest {};

// Edits a logit step by step like the verifier's LogitEdits on the host. `in_text`: the token
// occurs in the text, so the penalties apply.
float Edited(float logit, const LogitEdit& edit, bool in_text) {
  logit += edit.bias;
  if (!in_text) return logit;
  logit = logit > 0 ? logit / edit.penalty : logit * edit.penalty;
  return logit - edit.frequency - edit.presence;
}

TEST_F(EditsTest, EditsMatchTheHostBitForBitAndCanBeUndone) {
  const int rows = 3, vocabulary = 1003, count = 700;
  std::vector<float> logits = RandomFloats(rows * vocabulary, 1, 5.0f);
  logits[17] = 0.0f;
  logits[18] = -0.0f;
  const std::vector<float> random = RandomFloats(4 * count, 2, 1.7f);
  std::vector<LogitEdit> edits(count);
  std::vector<float> expected = logits;
  for (int i = 0; i < count; ++i) {
    LogitEdit& edit = edits[i];
    // 700 and 3009 have no common factor, so no token occurs twice.
    const int at = 17 + i * 700 % (rows * vocabulary);
    edit.row = at % (rows * vocabulary) / vocabulary;
    edit.token = at % (rows * vocabulary) % vocabulary;
    if (i % 2 == 0) edit.bias = i % 14 == 0 ? kMasked : random[4 * i];
    const bool in_text = i % 3 != 0;
    if (in_text) {
      edit.penalty = 1.0f + std::abs(random[4 * i + 1]);
      edit.frequency = random[4 * i + 2];
      edit.presence = random[4 * i + 3];
    }
    float& logit = expected[edit.row * vocabulary + edit.token];
    logit = Edited(logit, edit, in_text);
  }
  const OnDevice<float> on_device(logits), before(count, 0.0f);
  const OnDevice<LogitEdit> changes(edits);
  const EditArgs args = {on_device.data(), changes.data(), before.data(), count, vocabulary};
  EditLogits(args, *stream_);
  Finish();
  const std::vector<float> actual = on_device.Read();
  for (int i = 0; i < rows * vocabulary; ++i) ASSERT_EQ(actual[i], expected[i]) << "at " << i;
  UndoEdits(args, *stream_);
  Finish();
  const std::vector<float> restored = on_device.Read();
  EXPECT_TRUE(SameBits(restored.data(), logits.data(), logits.size()));
}

TEST_F(EditsTest, AnEmptyListChangesNothing) {
  const OnDevice<float> logits(std::vector<float>{1, 2});
  EditLogits({logits.data(), nullptr, nullptr, 0, 2}, *stream_);
  UndoEdits({logits.data(), nullptr, nullptr, 0, 2}, *stream_);
  Finish();
  EXPECT_EQ(logits.Read(), (std::vector<float>{1, 2}));
}

// Row 0 is not masked, rows 1 and 4 share a set, and the vocabulary is no multiple of 32.
TEST_F(EditsTest, OnlyTokensOfARowsSetKeepTheirLogits) {
  const int rows = 5, vocabulary = 1003, words = 32, sets = 2;
  const std::vector<float> logits = RandomFloats(rows * vocabulary, 1, 5.0f);
  std::vector<uint32_t> bits(sets * words);
  for (int i = 0; i < sets * words; ++i) bits[i] = bastion::KeyedWords(3, 0, i)[0];
  const std::vector<MaskedRow> masked = {{4, 1}, {2, 0}, {1, 1}};
  std::vector<float> expected = logits;
  for (const MaskedRow& row : masked) {
    for (int token = 0; token < vocabulary; ++token) {
      const uint32_t word = bits[row.set * words + token / 32];
      if ((word >> token % 32 & 1) == 0) expected[row.row * vocabulary + token] = kMasked;
    }
  }
  const OnDevice<float> on_device(logits);
  const OnDevice<uint32_t> in_sets(bits);
  const OnDevice<MaskedRow> in_rows(masked);
  MaskLogits({on_device.data(), in_sets.data(), in_rows.data(), 3, vocabulary}, *stream_);
  Finish();
  EXPECT_EQ(on_device.Read(), expected);
}

}  // namespace
}  // namespace bastion::kernels::cuda
