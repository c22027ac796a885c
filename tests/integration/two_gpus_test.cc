// Tests a verifier and a drafter on two GPUs, which the emulator plays. Whatever way the features
// take, the drafts must be those of a drafter on the verifier's GPU.
#include <gmock/gmock.h>

#include <algorithm>

#include "kernels/cuda/runtime/emulated_gpus.h"
#include "tests/integration/gpu_features_fixture.h"

namespace bastion {
namespace {

using kernels::cuda::emulator::PeerAccess;
using kernels::cuda::emulator::SetPeerAccess;
using ::testing::HasSubstr;
using ::testing::Not;

class TwoGpusTest : public GpuFeaturesTest {
 protected:
  ~TwoGpusTest() override { SetPeerAccess(PeerAccess::kWorks); }

  // Runs the drafter on `drafter_gpu`, and sets `log_` to the log of the run.
  Outcome RunOn(int drafter_gpu, PeerAccess access) {
    SetPeerAccess(access);
    Setting setting;
    setting.drafter_gpu = drafter_gpu;
    setting.cycles = 4;
    ::testing::internal::CaptureStderr();
    const Outcome run = RunWith(setting);
    log_ = ::testing::internal::GetCapturedStderr();
    return run;
  }
  static void ExpectFromHostMemory(const Outcome& run) {
    EXPECT_EQ(run.route, FeatureRoute::kSharedMemory);
    EXPECT_EQ(run.rows_on_device, 0);
    EXPECT_GT(run.rows_in_bytes, 0);
  }
  static void ExpectFromGpuMemory(const Outcome& run,
                                  FeatureRoute route = FeatureRoute::kGpuMemory) {
    EXPECT_EQ(run.route, route);
    EXPECT_GT(run.rows_on_device, 0);
    EXPECT_EQ(run.rows_in_bytes, 0);
  }

  std::string log_;
};

TEST_F(TwoGpusTest, ADrafterOnTheSameGpuReadsItsMemory) {
  ExpectFromGpuMemory(RunOn(0, PeerAccess::kWorks));
  EXPECT_THAT(log_, HasSubstr("stay in the GPU's memory, in a ring of 1 MiB"));
  EXPECT_THAT(log_, HasSubstr("drafter connected: features in GPU memory, over shared memory"));
}

TEST_F(TwoGpusTest, ADrafterOnAPeerReadsTheMemoryOfTheVerifiersGpu) {
  const Outcome same = RunOn(0, PeerAccess::kWorks), peer = RunOn(1, PeerAccess::kWorks);
  ExpectFromGpuMemory(peer, FeatureRoute::kPeerGpuMemory);
  EXPECT_EQ(peer.rows_on_device, same.rows_on_device);
  EXPECT_EQ(peer.drafts, same.drafts);
  EXPECT_THAT(log_, HasSubstr("are read from the memory of another GPU, in a ring of 1 MiB"));
  EXPECT_THAT(log_, HasSubstr("drafter connected: features in GPU memory, which the drafter's GPU "
                              "reads, over shared memory"));
}

// A wait for all work leaves the GPU idle until the host sends more.
TEST_F(TwoGpusTest, ADraftWaitsForAllWorkOfTheGpuOnce) {
  for (const PeerAccess access : {PeerAccess::kWorks, PeerAccess::kNone}) {
    SetPeerAccess(access);
    Setting setting;
    setting.drafter_gpu = 1;
    GpuPair pair(folder_, setting);
    std::vector<Live> sequences = {Open(pair, 1)};
    Cycle(pair, sequences, 0);
    (void)Expand(pair, sequences);  // Appends the prompt in chunks.
    for (int cycle = 1; cycle < 4; ++cycle) {
      Cycle(pair, sequences, cycle);
      const int64_t before = kernels::cuda::emulator::Synchronizations();
      EXPECT_FALSE(Expand(pair, sequences)[0].empty());
      EXPECT_EQ(kernels::cuda::emulator::Synchronizations() - before, 1);
    }
    EXPECT_EQ(pair.source->rows_on_device > 0, access == PeerAccess::kWorks);
  }
}

TEST_F(TwoGpusTest, WithoutPeerAccessFeaturesGoThroughHostMemory) {
  const Outcome same = RunOn(0, PeerAccess::kNone), other = RunOn(1, PeerAccess::kNone);
  ExpectFromGpuMemory(same);
  ExpectFromHostMemory(other);
  EXPECT_EQ(other.drafts, same.drafts);
  EXPECT_THAT(log_, HasSubstr("drafter connected: features as bytes, because the drafter's GPU "
                              "cannot read the memory of this one, over shared memory"));
  EXPECT_THAT(log_, HasSubstr("are copied through host memory (the verifier offers no ring in GPU "
                              "memory that this GPU can read)"));
}

TEST_F(TwoGpusTest, IfThePeersMemoryCannotBeMappedFeaturesGoThroughHostMemory) {
  const Outcome same = RunOn(0, PeerAccess::kPromised);
  EXPECT_THAT(log_, Not(HasSubstr("host memory")));
  const Outcome other = RunOn(1, PeerAccess::kPromised);
  ExpectFromGpuMemory(same);
  ExpectFromHostMemory(other);
  EXPECT_EQ(other.drafts, same.drafts);
  EXPECT_THAT(log_, HasSubstr("are copied through host memory (the emulated GPUs cannot read each "
                              "other's memory)"));
  EXPECT_THAT(log_, HasSubstr("drafter connected: features as bytes, because the drafter could not "
                              "map this GPU's memory, over shared memory"));
}

}  // namespace
}  // namespace bastion
