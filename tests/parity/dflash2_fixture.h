// Dflash2Fixture: a golden case of a DFlash 2 drafter (dflash2_goldens.py) and what it drafts.
#ifndef BASTION_TESTS_PARITY_DFLASH2_FIXTURE_H_
#define BASTION_TESTS_PARITY_DFLASH2_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "drafter_service/draft/dflash.h"
#include "engine/cuda/cuda_device.h"
#include "engine/program/local_device.h"
#include "tests/support/golden_file.h"

namespace bastion::testing {

// A sequence of a drafter: its context, and the root of its next block.
struct DraftedSequence {
  nn::PageTable table;
  Position cached = 0;
  TokenId root = 0;

  [[nodiscard]] drafter::BlockItem Block() { return {&table, cached, root}; }
};

class Dflash2Fixture : public ::testing::Test {
 protected:
  void UseGolden(const std::string& name) {
    folder_ = GoldenFolder(name);
    golden_ = std::make_unique<GoldenFile>(folder_ + "/golden.safetensors");
    options_ = {nn::FormatsFor(WeightFormat::kF32), local_.device, /*kv_tokens=*/1024};
    options_.max_rows = 64, options_.max_sequences = 4;
  }

  void Load(const std::string& drafter) {
    auto model = drafter::DflashModel::Load(drafter, folder_ + "/target", options_);
    ASSERT_TRUE(model.ok()) << model.status();
    model_ = *std::move(model);
  }
  void Load() { Load(folder_ + "/drafter"); }
  // On the emulator in a build without CUDA. Skips the test if there is no GPU.
  void LoadOnGpu() {
    model_ = nullptr;  // A test that is skipped must not go on with an earlier model.
    auto device = nn::OpenCudaDevice({}, local_.device->host());
    if (absl::IsUnavailable(device.status())) GTEST_SKIP() << device.status();
    ASSERT_TRUE(device.ok()) << device.status();
    options_.device = *std::move(device);
    Load();
  }

  [[nodiscard]] int draft_count() const {
    return static_cast<int>(golden_->Integers("draft_context").size());
  }

  // Adds the context of a draft to `sequence`, and sets its root.
  void Advance(int draft, DraftedSequence& sequence) {
    const int added = golden_->Integers("draft_context")[draft];
    const std::vector<float> all = golden_->Floats("features");
    Features rows = {model_->feature_width(), DType::kF32, {}};
    rows.bytes.assign(
        reinterpret_cast<const char*>(all.data()) + sequence.cached * rows.row_bytes(),
        added * rows.row_bytes());
    const absl::Status status =
        model_->AppendContext({{&sequence.table, sequence.cached, std::move(rows)}});
    ASSERT_TRUE(status.ok()) << status;
    sequence.cached += added;
    sequence.root = golden_->Integers("bonus_" + std::to_string(draft))[0];
  }

  std::vector<Marginals> Draft(const std::vector<drafter::BlockItem>& blocks, int candidates) {
    auto drafts = model_->Draft(blocks, candidates);
    EXPECT_TRUE(drafts.ok()) << drafts.status();
    return drafts.ok() ? *std::move(drafts) : std::vector<Marginals>(blocks.size());
  }

  // The draft number `draft` of the golden, from a model without context.
  Marginals DraftOf(int draft, int candidates) {
    DraftedSequence sequence;
    for (int i = 0; i <= draft; ++i) Advance(i, sequence);
    Marginals marginals = Draft({sequence.Block()}, candidates)[0];
    model_->pages().Shrink(sequence.table, 0);
    return marginals;
  }

  std::string folder_;
  std::unique_ptr<GoldenFile> golden_;
  nn::LocalDevice local_ = *nn::OpenLocalDevice(2);
  nn::EngineOptions options_;
  std::unique_ptr<drafter::DflashModel> model_;
};

}  // namespace bastion::testing

#endif  // BASTION_TESTS_PARITY_DFLASH2_FIXTURE_H_
