// Device memory that two processes on one GPU share. It uses the driver API, because the runtime
// API can only share whole blocks of its allocator. The driver functions are looked up at first
// use, so that programs also start on machines without a driver.
#include <cuda.h>
#include <cuda_runtime_api.h>

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

}  // namespace

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

  // Sets `bytes` to `wanted_bytes`, rounded up to the allocation granularity.
  [[nodiscard]] absl::Status RoundUp(size_t wanted_bytes) {
    size_t granule = 0;
    const CUmemAllocationProp properties = AllocationProperties(ProcessDevice());
    RETURN_IF_ERROR(
        Check(driver, driver.granularity(&granule, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM),
              "querying the allocation granularity"));
    bytes = (wanted_bytes + granule - 1) / granule * granule;
    return absl::OkStatus();
  }
  [[nodiscard]] absl::Status Map(CUmemAccess_flags flags) {
    constexpr char kWhat[] = "mapping shared GPU memory";
    RETURN_IF_ERROR(Check(driver, driver.reserve(&address, bytes, 0, 0, 0), kWhat));
    RETURN_IF_ERROR(Check(driver, driver.map(address, bytes, 0, handle, 0), kWhat));
    mapped = true;
    CUmemAccessDesc access{};
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.location.id = ProcessDevice();
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

absl::StatusOr<Memory> Memory::OnDeviceShareable(size_t bytes, const char* what) {
  ASSIGN_OR_RETURN(const Driver driver, GetDriver());
  if (const cudaError_t error = MakeCurrent(); error != cudaSuccess) {
    return absl::UnavailableError(cudaGetErrorString(error));
  }
  auto mapping = std::make_shared<Mapping>(driver);
  RETURN_IF_ERROR(mapping->RoundUp(bytes));
  const CUmemAllocationProp properties = AllocationProperties(ProcessDevice());
  RETURN_IF_ERROR(
      Annotate(Check(driver, driver.create(&mapping->handle, mapping->bytes, &properties, 0),
                     "allocating shareable GPU memory"),
               absl::StrCat(mapping->bytes >> 20, " MiB for ", what)));
  mapping->allocated = true;
  RETURN_IF_ERROR(mapping->Map(CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
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

absl::StatusOr<Memory> Memory::Import(int descriptor, size_t bytes) {
  ASSIGN_OR_RETURN(const Driver driver, GetDriver());
  if (const cudaError_t error = MakeCurrent(); error != cudaSuccess) {
    return absl::UnavailableError(cudaGetErrorString(error));
  }
  auto mapping = std::make_shared<Mapping>(driver);
  RETURN_IF_ERROR(mapping->RoundUp(bytes));
  // The descriptor itself is passed where a pointer to a handle is expected.
  void* const handle = reinterpret_cast<void*>(static_cast<uintptr_t>(descriptor));
  RETURN_IF_ERROR(Check(driver, driver.from_shareable(&mapping->handle, handle, kDescriptor),
                        "importing GPU memory"));
  mapping->allocated = true;
  RETURN_IF_ERROR(mapping->Map(CU_MEM_ACCESS_FLAGS_PROT_READ));
  return Memory(mapping, bytes);
}

}  // namespace bastion::kernels::cuda
