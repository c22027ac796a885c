// Device memory that two processes share, on one GPU or on two that are peers. It uses the driver
// API, because the runtime API can only share whole blocks of its allocator. The driver functions
// are looked up at first use, so that programs also start on machines without a driver.
//
// A process maps memory of another GPU like that of its own: it gives its own GPU access to the
// mapping. That needs no context on the other GPU, but the process must see it.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/runtime/current_device.h"
#include "kernels/cuda/runtime/runtime.h"

namespace bastion::kernels::cuda {
namespace {

// CUDA 12.0. The functions below are older and have not changed since.
constexpr unsigned kDriverInterface = 12000;
constexpr CUmemAllocationHandleType kDescriptor = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

struct Driver {
  decltype(&cuGetErrorName) error_name = nullptr;
  decltype(&cuMemGetAllocationGranularity) granularity = nullptr;
  decltype(&cuMemCreate) create = nullptr;
  decltype(&cuMemRelease) release = nullptr;
  decltype(&cuMemExportToShareableHandle) to_shareable = nullptr;
  decltype(&cuMemImportFromShareableHandle) from_shareable = nullptr;
  decltype(&cuMemAddressReserve) reserve = nullptr;
  decltype(&cuMemAddressFree) free = nullptr;
  decltype(&cuMemMap) map = nullptr;
  decltype(&cuMemUnmap) unmap = nullptr;
  decltype(&cuMemSetAccess) set_access = nullptr;
};

template <typename Function>
absl::Status Find(const char* name, Function& function) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  const cudaError_t error =
      cudaGetDriverEntryPointByVersion(name, &found, kDriverInterface, cudaEnableDefault, &result);
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || found == nullptr) {
    static_cast<void>(cudaGetLastError());
    return absl::UnimplementedError(absl::StrCat("the GPU driver does not provide ", name));
  }
  function = reinterpret_cast<Function>(found);
  return absl::OkStatus();
}

absl::StatusOr<Driver> FindDriver() {
  Driver driver;
  RETURN_IF_ERROR(Find("cuGetErrorName", driver.error_name));
  RETURN_IF_ERROR(Find("cuMemGetAllocationGranularity", driver.granularity));
  RETURN_IF_ERROR(Find("cuMemCreate", driver.create));
  RETURN_IF_ERROR(Find("cuMemRelease", driver.release));
  RETURN_IF_ERROR(Find("cuMemExportToShareableHandle", driver.to_shareable));
  RETURN_IF_ERROR(Find("cuMemImportFromShareableHandle", driver.from_shareable));
  RETURN_IF_ERROR(Find("cuMemAddressReserve", driver.reserve));
  RETURN_IF_ERROR(Find("cuMemAddressFree", driver.free));
  RETURN_IF_ERROR(Find("cuMemMap", driver.map));
  RETURN_IF_ERROR(Find("cuMemUnmap", driver.unmap));
  RETURN_IF_ERROR(Find("cuMemSetAccess", driver.set_access));
  return driver;
}

const absl::StatusOr<Driver>& GetDriver() {
  static const absl::StatusOr<Driver> driver = FindDriver();
  return driver;
}

absl::Status Check(const Driver& driver, CUresult result, const char* what) {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  static_cast<void>(driver.error_name(result, &name));
  const std::string text = absl::StrCat(what, ": ", name == nullptr ? "error" : name, " (",
                                        static_cast<int>(result), ")");
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return absl::ResourceExhaustedError(text);
  if (result == CUDA_ERROR_NOT_SUPPORTED) return absl::UnimplementedError(text);
  return absl::UnavailableError(text);
}

CUmemAllocationProp AllocationProperties(int device) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes = kDescriptor;
  properties.location = {};
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  return properties;
}

std::string UuidOf(int ordinal) {
  cudaDeviceProp properties;
  if (cudaGetDeviceProperties(&properties, ordinal) != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return "";
  }
  return {properties.uuid.bytes, sizeof properties.uuid.bytes};
}

bool CanRead(int ordinal, int owner) {
  int can_read = 0;
  if (cudaDeviceCanAccessPeer(&can_read, ordinal, owner) == cudaSuccess) return can_read != 0;
  static_cast<void>(cudaGetLastError());
  return false;
}

int VisibleGpus() {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());
  return 0;
}

// The ordinal of the GPU `uuid`. UNAVAILABLE if `device` cannot read its memory.
absl::StatusOr<int> FindReadable(const std::string& uuid, const DeviceInfo& device) {
  if (uuid == device.uuid) return device.ordinal;
  for (int owner = 0; owner < VisibleGpus(); ++owner) {
    if (owner == device.ordinal || UuidOf(owner) != uuid) continue;
    if (CanRead(device.ordinal, owner)) return owner;
    return absl::UnavailableError(
        absl::StrCat("GPU ", device.ordinal, " cannot read the memory of GPU ", owner));
  }
  return absl::UnavailableError(
      "the memory is on a GPU that this process does not see; CUDA_VISIBLE_DEVICES or a container "
      "may hide it");
}

// Copies the first bytes of `memory`, so that an error shows here and not in a step.
absl::Status TryToRead(const Memory& memory) {
  const size_t bytes = std::min<size_t>(memory.bytes(), 4096);
  ASSIGN_OR_RETURN(const Memory copy, Memory::OnDevice(bytes, "a copy from another GPU"));
  ASSIGN_OR_RETURN(const std::unique_ptr<Stream> stream, Stream::Create());
  stream->Copy(copy.as<void>(), memory.as<void>(), bytes);
  return stream->Synchronize();
}

}  // namespace

std::vector<std::string> FindPeers(int ordinal) {
  std::vector<std::string> peers;
  for (int owner = 0; owner < VisibleGpus(); ++owner) {
    if (owner != ordinal && CanRead(ordinal, owner)) peers.push_back(UuidOf(owner));
  }
  return peers;
}

// Owns the allocation and its mapping. The destructor releases the parts that were created.
struct Memory::Mapping {
  explicit Mapping(const Driver& driver) : driver(driver) {}
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping() {
    // Unlike cudaFree, unmapping does not wait for kernels that still read the memory.
    if (MakeCurrent() != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) return;
    if (mapped) static_cast<void>(driver.unmap(address, bytes));
    if (address != 0) static_cast<void>(driver.free(address, bytes));
    if (allocated) static_cast<void>(driver.release(handle));
  }

  // Sets `bytes` to `wanted_bytes`, rounded up to the allocation granularity of GPU `owner`.
  [[nodiscard]] absl::Status RoundUp(size_t wanted_bytes, int owner) {
    size_t granule = 0;
    const CUmemAllocationProp properties = AllocationProperties(owner);
    RETURN_IF_ERROR(
        Check(driver, driver.granularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
              "querying the allocation granularity"));
    bytes = (wanted_bytes + granule - 1) / granule * granule;
    return absl::OkStatus();
  }
  // Lets GPU `reader` access the memory.
  [[nodiscard]] absl::Status Map(int reader, CUmemAccess_flags flags) {
    constexpr char kWhat[] = "mapping shared GPU memory";
    RETURN_IF_ERROR(Check(driver, driver.reserve(&address, bytes, 0, 0, 0), kWhat));
    RETURN_IF_ERROR(Check(driver, driver.map(address, bytes, 0, handle, 0), kWhat));
    mapped = true;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = reader;
    access.flags = flags;
    return Check(driver, driver.set_access(address, bytes, &access, 1), kWhat);
  }

  const Driver driver;
  size_t bytes = 0;
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr address = 0;
  bool allocated = false, mapped = false;
};

Memory::Memory(std::shared_ptr<const Mapping> mapping, size_t bytes)
    : data_(reinterpret_cast<void*>(mapping->address)),
      bytes_(bytes),
      mapping_(std::move(mapping)) {}

absl::StatusOr<Memory> Memory::OnDeviceShareable(const DeviceInfo& device, size_t bytes,
                                                 const char* what) {
  ASSIGN_OR_RETURN(const Driver driver, GetDriver());
  if (const cudaError_t error = MakeCurrent(); error != cudaSuccess) {
    return absl::UnavailableError(cudaGetErrorString(error));
  }
  auto mapping = std::make_shared<Mapping>(driver);
  RETURN_IF_ERROR(mapping->RoundUp(bytes, device.ordinal));
  const CUmemAllocationProp properties = AllocationProperties(device.ordinal);
  RETURN_IF_ERROR(
      Annotate(Check(driver, driver.create(&mapping->handle, mapping->bytes, &properties, 0),
                     "allocating shareable GPU memory"),
               absl::StrCat(mapping->bytes >> 20, " MiB for ", what)));
  mapping->allocated = true;
  RETURN_IF_ERROR(mapping->Map(device.ordinal, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
  Memory memory(mapping, bytes);
  cudaError_t error = cudaMemset(memory.data_, 0, mapping->bytes);
  if (error == cudaSuccess) error = cudaStreamSynchronize(nullptr);
  if (error == cudaSuccess) return memory;
  static_cast<void>(cudaGetLastError());
  return absl::InternalError(absl::StrCat(what, ": ", cudaGetErrorString(error)));
}

absl::StatusOr<int> Memory::ExportDescriptor() const {
  CHECK(mapping_ != nullptr) << "only memory from OnDeviceShareable can be exported";
  if (const cudaError_t error = MakeCurrent(); error != cudaSuccess) {
    return absl::UnavailableError(cudaGetErrorString(error));
  }
  int descriptor = -1;
  RETURN_IF_ERROR(
      Check(mapping_->driver,
            mapping_->driver.to_shareable(&descriptor, mapping_->handle, kDescriptor, 0),
            "exporting GPU memory"));
  return descriptor;
}

absl::StatusOr<Memory> Memory::Import(const Exported& exported, const DeviceInfo& device) {
  ASSIGN_OR_RETURN(const Driver driver, GetDriver());
  if (const cudaError_t error = MakeCurrent(); error != cudaSuccess) {
    return absl::UnavailableError(cudaGetErrorString(error));
  }
  ASSIGN_OR_RETURN(const int owner, FindReadable(exported.uuid, device));
  auto mapping = std::make_shared<Mapping>(driver);
  RETURN_IF_ERROR(mapping->RoundUp(exported.bytes, owner));
  // The descriptor itself is passed where a pointer to a handle is expected.
  void* const handle = reinterpret_cast<void*>(static_cast<uintptr_t>(exported.descriptor));
  RETURN_IF_ERROR(Check(driver, driver.from_shareable(&mapping->handle, handle, kDescriptor),
                        "importing GPU memory"));
  mapping->allocated = true;
  RETURN_IF_ERROR(mapping->Map(device.ordinal, CU_MEM_ACCESS_FLAGS_PROT_READ));
  Memory memory(mapping, exported.bytes);
  if (owner != device.ordinal) {
    RETURN_IF_ERROR(TryToRead(memory));
  }
  return memory;
}

}  // namespace bastion::kernels::cuda
