#include "kernels/cuda/runtime/emulated_gpus.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda {
namespace {

using emulator::PeerAccess;

constexpr size_t kSharedBytes = 1024;

class EmulatedGpusTest : public ::testing::Test {
 protected:
  ~EmulatedGpusTest() override { emulator::SetPeerAccess(PeerAccess::kWorks); }

  // Imports memory of GPU `owner` for GPU `reader`. The exporter says that it is on `claimed`.
  static absl::Status Import(int owner, int reader, int claimed) {
    const DeviceInfo from = *OpenDevice(owner), to = *OpenDevice(reader);
    const auto memory = Memory::OnDeviceShareable(from, kSharedBytes, "a test");
    EXPECT_TRUE(memory.ok()) << memory.status();
    const auto descriptor = memory->ExportDescriptor();
    EXPECT_TRUE(descriptor.ok()) << descriptor.status();
    const auto imported =
        Memory::Import({*descriptor, kSharedBytes, OpenDevice(claimed)->uuid}, to);
    close(*descriptor);
    return imported.status();
  }
};

TEST_F(EmulatedGpusTest, PlaysTwoGpusWithTheirOwnUuids) {
  EXPECT_NE(OpenDevice(0)->uuid, OpenDevice(1)->uuid);
  EXPECT_EQ(OpenDevice(1)->ordinal, 1);
  EXPECT_FALSE(OpenDevice(2).ok());
}

TEST_F(EmulatedGpusTest, PeersReadEachOthersMemory) {
  EXPECT_EQ(OpenDevice(0)->peers, std::vector<std::string>{OpenDevice(1)->uuid});
  EXPECT_EQ(OpenDevice(1)->peers, std::vector<std::string>{OpenDevice(0)->uuid});
  EXPECT_TRUE(Import(0, 1, 0).ok());
  EXPECT_TRUE(Import(1, 0, 1).ok());
}

TEST_F(EmulatedGpusTest, WithoutAccessThereAreNoPeers) {
  emulator::SetPeerAccess(PeerAccess::kNone);
  EXPECT_TRUE(OpenDevice(0)->peers.empty());
  EXPECT_TRUE(absl::IsUnavailable(Import(0, 1, 0)));
  EXPECT_TRUE(absl::IsUnavailable(Import(0, 1, 1))) << "although the exporter claims another GPU";
  EXPECT_TRUE(Import(1, 1, 1).ok());
}

TEST_F(EmulatedGpusTest, APromisedPeerRefusesItsMemory) {
  emulator::SetPeerAccess(PeerAccess::kPromised);
  EXPECT_FALSE(OpenDevice(0)->peers.empty());
  EXPECT_TRUE(absl::IsUnavailable(Import(0, 1, 0)));
  EXPECT_TRUE(Import(0, 0, 0).ok());
}

}  // namespace
}  // namespace bastion::kernels::cuda
