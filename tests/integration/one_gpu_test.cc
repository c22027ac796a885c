// Tests drafter and verifier on one GPU, or on the emulator in a build without CUDA. Features stay
// in GPU memory. The drafts must equal the drafts from features sent as bytes, at least within
// rounding, even if the ring wraps or is lost.
#include <algorithm>

#include "tests/integration/gpu_features_fixture.h"

namespace bastion {
namespace {

using OneGpuTest = GpuFeaturesTest;

TEST_F(OneGpuTest, DraftsFromGpuMemoryEqualDraftsFromBytes) {
  const Outcome &bytes = FromBytes(), ring = RunWith(Setting());
  EXPECT_EQ(bytes.rows_on_device, 0);
  EXPECT_GT(bytes.rows_in_bytes, 0);
  EXPECT_EQ(ring.rows_in_bytes, 0);
  EXPECT_EQ(ring.rows_on_device, bytes.rows_in_bytes);
  EXPECT_EQ(ring.drafts, bytes.drafts);
}

TEST_F(OneGpuTest, DraftsAreCorrectIfTheRingWrapsManyTimes) {
  Setting setting;
  setting.ring_bytes = 20 * row_bytes_ + 64;  // Too small for all chunks of the prompt.
  const Outcome &bytes = FromBytes(), ring = RunWith(setting);
  EXPECT_GT(ring.rows_on_device, 20);
  EXPECT_GT(ring.rows_in_bytes, 0);
  ExpectNear(ring, bytes);
}

TEST_F(OneGpuTest, ALateDrafterGetsOverwrittenFeaturesAsBytes) {
  Setting setting;
  setting.ring_bytes = 20 * row_bytes_ + 64;
  setting.draft_every = 8;
  const Outcome &bytes = FromBytes(8), ring = RunWith(setting);
  EXPECT_GT(ring.rows_in_bytes, 0);
  ExpectNear(ring, bytes);
}

TEST_F(OneGpuTest, FeaturesOverwrittenDuringAReadAreReadAgainAsBytes) {
  Setting setting;
  setting.lose_every = 3;
  const Outcome &bytes = FromBytes(), ring = RunWith(setting);
  EXPECT_GT(ring.lost, 3);
  EXPECT_GT(ring.rows_in_bytes, 0);
  EXPECT_GT(ring.rows_on_device, 0);
  ExpectNear(ring, bytes);
}

TEST_F(OneGpuTest, WithoutASharedRingFeaturesAreSentAsBytes) {
  const Outcome &bytes = FromBytes();
  Setting not_permitted, no_ring;
  not_permitted.mappable = false;
  no_ring.ring_bytes = 0;
  for (Setting setting : {not_permitted, no_ring}) {
    setting.cycles = 2;
    const Outcome run = RunWith(setting);
    EXPECT_EQ(run.rows_on_device, 0);
    ASSERT_EQ(run.drafts.size(), size_t{2 * kSequences});
    EXPECT_TRUE(std::equal(run.drafts.begin(), run.drafts.end(), bytes.drafts.begin()));
  }
}

TEST_F(OneGpuTest, FeaturesAlreadyReadOutliveTheVerifierAndANewVerifierHasANewRing) {
  GpuPair gpu(folder_, Setting());
  std::vector<Live> sequences = {Open(gpu, 1)};
  Cycle(gpu, sequences, 0);
  ASSERT_FALSE(Expand(gpu, sequences)[0].empty());
  // Hold features in the ring while the verifier that owns it stops.
  Cycle(gpu, sequences, 1);
  const FeatureRange first = {sequences[0].id, 0, 2, /*may_be_on_device=*/true};
  const auto held = gpu.source->Read(first, absl::Seconds(5));
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_TRUE(held->on_device());
  const auto as_bytes = gpu.verifier_engine->features().Read(first, absl::ZeroDuration());
  ASSERT_TRUE(as_bytes.ok()) << as_bytes.status();
  gpu.StopVerifier();
  EXPECT_TRUE(held->device.intact());
  std::string read(as_bytes->bytes.size(), '?');
  auto stream = kernels::cuda::Stream::Create();
  ASSERT_TRUE(stream.ok()) << stream.status();
  (*stream)->Copy(read.data(), held->device.data(), read.size());
  ASSERT_TRUE((*stream)->Synchronize().ok());
  EXPECT_EQ(read, as_bytes->bytes);

  gpu.StartVerifier();
  gpu.AwaitSubscription();
  gpu.source->rows_on_device = 0;
  std::vector<Live> after = {Open(gpu, 2)};
  Cycle(gpu, after, 0);
  EXPECT_FALSE(Expand(gpu, after)[0].empty());
  EXPECT_EQ(gpu.source->rows_on_device, after[0].committed);
}

}  // namespace
}  // namespace bastion
