#include "kernels/cuda/gemm/gemm_table.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/data_file.h"
#include "common/base/status.h"

namespace bastion::kernels::cuda {
namespace {

constexpr char kFirstLine[] =
    "bastion-gemm-1\tdevice library type rows columns depth put|add algorithm microseconds";
constexpr size_t kDigits = 16;  // Hexadecimal digits per word of an algorithm.

std::string Line(const GemmEntry& entry) {
  const GemmShape& shape = entry.shape;
  std::string algorithm;
  for (const uint64_t word : entry.algorithm) absl::StrAppendFormat(&algorithm, "%016x", word);
  return absl::StrFormat("%s\t%d\t%s\t%d\t%d\t%d\t%s\t%s\t%.3f\n", entry.device, entry.library,
                         Name(shape.dtype), shape.rows, shape.columns, shape.depth,
                         shape.accumulate ? "add" : "put", algorithm, entry.microseconds);
}

bool ReadSize(std::string_view text, int& size) {
  return absl::SimpleAtoi(absl::string_view(text.data(), text.size()), &size) && size > 0;
}

bool ReadWords(absl::string_view text, std::array<uint64_t, 8>& words) {
  if (text.size() != words.size() * kDigits) return false;
  for (size_t i = 0; i < words.size(); ++i) {
    const absl::string_view word = text.substr(i * kDigits, kDigits);
    if (word.find_first_not_of("0123456789abcdef") != absl::string_view::npos) return false;
    if (!absl::SimpleHexAtoi(word, &words[i])) return false;
  }
  return true;
}

// Parses a line into `entry`. Returns a description of the error, or null.
const char* Read(const std::string& line, GemmEntry& entry) {
  const std::vector<std::string> fields = absl::StrSplit(line, '\t');
  if (fields.size() != 9) return "a line must have 9 fields";
  GemmShape& shape = entry.shape;
  entry.device = fields[0];
  if (entry.device.empty()) return "the device is empty";
  if (!absl::SimpleAtoi(fields[1], &entry.library)) return "the library version is not a number";
  if (fields[2] != Name(DType::kF32) && fields[2] != Name(DType::kBF16)) return "unknown type";
  shape.dtype = fields[2] == Name(DType::kF32) ? DType::kF32 : DType::kBF16;
  if (!ReadSize(fields[3], shape.rows) || !ReadSize(fields[4], shape.columns) ||
      !ReadSize(fields[5], shape.depth)) {
    return "rows, columns and depth must be positive numbers";
  }
  if (fields[6] != "put" && fields[6] != "add") return "field 7 must be put or add";
  shape.accumulate = fields[6] == "add";
  if (!ReadWords(fields[7], entry.algorithm)) return "the algorithm must have 128 hex digits";
  if (!absl::SimpleAtod(fields[8], &entry.microseconds)) return "the time is not a number";
  return nullptr;
}

}  // namespace

absl::StatusOr<std::vector<GemmEntry>> ReadGemmTable(const std::string& path) {
  RETURN_IF_ERROR(CheckDataFile(path));
  std::vector<GemmEntry> entries;
  std::ifstream file(path);
  if (!file) {
    if (errno == ENOENT) return entries;
    return absl::InvalidArgumentError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    const char* wrong = nullptr;
    if (number == 1) {
      if (line != kFirstLine) wrong = "not a GEMM tuning file of this version";
    } else {
      wrong = Read(line, entries.emplace_back());
    }
    // A truncated line can still parse, so also require the newline.
    if (wrong == nullptr && file.eof()) wrong = "the file ends in the middle of the line";
    if (wrong != nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ":", number, ": ", wrong, "; delete the file to tune again"));
    }
  }
  if (file.bad()) return absl::InvalidArgumentError(absl::StrCat("cannot read ", path));
  return entries;
}

absl::Status WriteGemmTable(const std::string& path, const std::vector<GemmEntry>& entries) {
  RETURN_IF_ERROR(CheckDataFile(path));
  const std::string unfinished = absl::StrCat(path, ".", getpid());
  {
    std::ofstream file(unfinished);
    file << kFirstLine << '\n';
    for (const GemmEntry& entry : entries) file << Line(entry);
    file.close();
    if (!file) {
      const std::string why = std::strerror(errno);
      static_cast<void>(std::remove(unfinished.c_str()));
      return absl::UnavailableError(absl::StrCat("cannot write ", unfinished, ": ", why));
    }
  }
  if (std::rename(unfinished.c_str(), path.c_str()) == 0) return absl::OkStatus();
  const std::string why = std::strerror(errno);
  static_cast<void>(std::remove(unfinished.c_str()));
  return absl::UnavailableError(absl::StrCat("cannot replace ", path, ": ", why));
}

}  // namespace bastion::kernels::cuda
