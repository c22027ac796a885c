#include "common/hub/safetensors_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "absl/cleanup/cleanup.h"
#include "common/base/check.h"
#include "common/base/data_file.h"
#include "common/base/status.h"

namespace bastion::hub {
namespace {

static_assert(std::endian::native == std::endian::little, "safetensors is little-endian");

std::vector<NamedTensor> WidestFirst(absl::Span<const NamedTensor> tensors) {
  std::vector<NamedTensor> ordered(tensors.begin(), tensors.end());
  std::stable_sort(ordered.begin(), ordered.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return Bytes(a.view.dtype, 1) > Bytes(b.view.dtype, 1);
  });
  return ordered;
}

// Returns the length and the header, padded with spaces so that the data begins at a multiple of 8.
std::string Header(const std::vector<NamedTensor>& tensors) {
  nlohmann::json entries = nlohmann::json::object();
  size_t begin = 0;
  for (const auto& [name, view] : tensors) {
    int64_t elements = 1;
    for (const int64_t size : view.shape) elements *= size;
    const size_t bytes = Bytes(view.dtype, elements);
    CHECK_EQ(bytes, view.bytes) << "bytes of tensor '" << name << "'";
    CHECK(!entries.contains(name)) << "two tensors are named '" << name << "'";
    entries[name] = {{"dtype", SafetensorsName(view.dtype)},
                     {"shape", view.shape},
                     {"data_offsets", {begin, begin + bytes}}};
    begin += bytes;
  }
  std::string json = entries.dump();
  json.resize((json.size() + 7) / 8 * 8, ' ');
  const uint64_t length = json.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + json;
}

bool WriteAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Makes a new file. On an error, returns false with errno set and leaves the incomplete file.
bool WriteFile(const std::vector<NamedTensor>& tensors, const std::string& path, mode_t mode) {
  unlink(path.c_str());  // A process that was killed leaves its file behind.
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (file < 0) return false;
  auto close_file = absl::MakeCleanup([file] { close(file); });
  if (!WriteAll(file, Header(tensors))) return false;
  for (const auto& [name, view] : tensors) {
    if (!WriteAll(file, {static_cast<const char*>(view.data), view.bytes})) return false;
  }
  if (fsync(file) != 0) return false;
  std::move(close_file).Cancel();
  return close(file) == 0;
}

// Keeps the new name of a file in `folder` through a crash. If that fails, the old file may be back
// after a crash, and is complete.
void SyncFolder(const std::filesystem::path& folder) {
  const int file = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

}  // namespace

absl::Status SetAside(const std::string& path, const absl::Status& reason) {
  const std::string aside = path + ".bad";
  RETURN_IF_ERROR(CheckDataFile(path));
  RETURN_IF_ERROR(CheckDataFile(aside));
  if (std::rename(path.c_str(), aside.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot rename ", path, " to ", aside));
  }
  LOG(ERROR) << path << " was renamed to " << aside
             << ", and the service starts without it: " << reason;
  return absl::OkStatus();
}

absl::Status LogDiskError(const absl::Status& written) {
  const bool is_full = absl::IsResourceExhausted(written) || absl::IsOutOfRange(written);
  if (!is_full && !absl::IsUnknown(written)) return written;  // EIO is UNKNOWN.
  LOG(ERROR) << written << "; the next save tries again";
  return absl::OkStatus();
}

absl::Status WriteSafetensors(absl::Span<const NamedTensor> tensors, const std::string& path,
                              FileAccess access) {
  RETURN_IF_ERROR(CheckDataFile(path));
  const std::string unfinished = absl::StrCat(path, ".tmp.", getpid());
  if (WriteFile(WidestFirst(tensors), unfinished, access == FileAccess::kOwner ? 0600 : 0666) &&
      std::rename(unfinished.c_str(), path.c_str()) == 0) {
    SyncFolder(std::filesystem::path(path).parent_path());
    return absl::OkStatus();
  }
  const int error = errno;
  unlink(unfinished.c_str());
  return absl::ErrnoToStatus(
      error, absl::StrCat("cannot write ", path, " (an existing file is unchanged)"));
}

}  // namespace bastion::hub
