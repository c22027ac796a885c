#include "common/hub/gguf_file.h"

#include <sys/stat.h>

#include <array>
#include <charconv>
#include <cstring>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "common/base/status.h"
#include "common/hub/utf8.h"

namespace bastion::hub {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMagic = "GGUF";
constexpr uint32_t kOldest = 2, kNewest = 3;
constexpr size_t kMaxKeyBytes = size_t{1} << 16;
constexpr uint32_t kMaxDims = 4;
constexpr size_t kDefaultAlignment = 32;
constexpr size_t kMinAlignment = 8;  // The format requires multiples of 8.
constexpr size_t kMaxAlignment = size_t{1} << 20;

enum ValueType : uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kFloat,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kDouble
};

// The bytes of a value, or the fewest that it may have.
size_t LeastBytes(uint32_t type) {
  constexpr std::array<size_t, 13> kBytes = {1, 1, 2, 2, 4, 4, 4, 1, 8, 12, 8, 8, 8};
  return type < kBytes.size() ? kBytes[type] : 1;
}

// The types of tensors. Formats that only other programs read have a name for errors.
struct TensorType {
  uint32_t id;
  const char* name;
  std::optional<DType> dtype = std::nullopt;
  BlockFormat blocks = BlockFormat::kNone;
};

constexpr TensorType kTensorTypes[] = {
    {0, "F32", DType::kF32},
    {1, "F16", DType::kF16},
    {2, "Q4_0", std::nullopt, BlockFormat::kQ4_0},
    {3, "Q4_1", std::nullopt, BlockFormat::kQ4_1},
    {6, "Q5_0", std::nullopt, BlockFormat::kQ5_0},
    {7, "Q5_1", std::nullopt, BlockFormat::kQ5_1},
    {8, "Q8_0", std::nullopt, BlockFormat::kQ8_0},
    {9, "Q8_1"},
    {10, "Q2_K"},
    {11, "Q3_K"},
    {12, "Q4_K", std::nullopt, BlockFormat::kQ4_K},
    {13, "Q5_K", std::nullopt, BlockFormat::kQ5_K},
    {14, "Q6_K", std::nullopt, BlockFormat::kQ6_K},
    {15, "Q8_K"},
    {16, "IQ2_XXS"},
    {17, "IQ2_XS"},
    {18, "IQ3_XXS"},
    {19, "IQ1_S"},
    {20, "IQ4_NL"},
    {21, "IQ3_S"},
    {22, "IQ2_S"},
    {23, "IQ4_XS"},
    {24, "I8"},
    {25, "I16"},
    {26, "I32"},
    {27, "I64"},
    {28, "F64"},
    {29, "IQ1_M"},
    {30, "BF16", DType::kBF16},
    {34, "TQ1_0"},
    {35, "TQ2_0"},
    {39, "MXFP4"},
    {40, "NVFP4"},
};

// The shortest decimal number that is this float, as a double: 1e-05, not 9.99999974737875e-06.
double Shortest(float value) {
  char digits[32];
  const auto end = std::to_chars(digits, digits + sizeof(digits), value).ptr;
  double parsed = value;
  std::from_chars(digits, end, parsed);
  return parsed;
}

// Reads the file from its beginning.
class Cursor {
 public:
  explicit Cursor(std::string_view bytes) : bytes_(bytes) {}

  [[nodiscard]] size_t position() const { return position_; }
  [[nodiscard]] size_t left() const { return bytes_.size() - position_; }

  template <typename T>
  absl::StatusOr<T> Number() {
    if (left() < sizeof(T)) return TooShort(sizeof(T));
    T value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  absl::StatusOr<std::string> String(size_t limit = std::numeric_limits<size_t>::max()) {
    ASSIGN_OR_RETURN(const uint64_t size, Number<uint64_t>());
    if (size > left() || size > limit) return TooShort(size);
    const std::string_view text = bytes_.substr(position_, size);
    RETURN_IF_ERROR(CheckUtf8(text, absl::StrCat("the text at byte ", position_)));
    position_ += size;
    return std::string(text);
  }

  // A number of elements of at least `each` bytes, which must follow.
  absl::StatusOr<uint64_t> Count(size_t each) {
    ASSIGN_OR_RETURN(const uint64_t count, Number<uint64_t>());
    if (count > left() / each) return TooShort(count);
    return count;
  }

 private:
  [[nodiscard]] absl::Status TooShort(uint64_t wanted) const {
    return absl::InvalidArgumentError(absl::StrCat("at byte ", position_, ", ", wanted,
                                                   " bytes or elements must follow, but ", left(),
                                                   " bytes are left; is the file truncated?"));
  }

  std::string_view bytes_;
  size_t position_ = 0;
};

template <typename T>
absl::StatusOr<Json> NumberOf(Cursor& cursor) {
  ASSIGN_OR_RETURN(const T value, cursor.Number<T>());
  return Json(value);
}

absl::StatusOr<Json> ReadValue(Cursor& cursor, uint32_t type);

absl::StatusOr<Json> ReadArray(Cursor& cursor) {
  ASSIGN_OR_RETURN(const uint32_t type, cursor.Number<uint32_t>());
  if (type == kArray) return absl::UnimplementedError("arrays of arrays are not supported");
  ASSIGN_OR_RETURN(const uint64_t count, cursor.Count(LeastBytes(type)));
  Json::array_t array;
  array.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Json value, ReadValue(cursor, type));
    array.push_back(std::move(value));
  }
  return Json(std::move(array));
}

absl::StatusOr<Json> ReadValue(Cursor& cursor, uint32_t type) {
  switch (type) {
    case kU8:
      return NumberOf<uint8_t>(cursor);
    case kI8:
      return NumberOf<int8_t>(cursor);
    case kU16:
      return NumberOf<uint16_t>(cursor);
    case kI16:
      return NumberOf<int16_t>(cursor);
    case kU32:
      return NumberOf<uint32_t>(cursor);
    case kI32:
      return NumberOf<int32_t>(cursor);
    case kU64:
      return NumberOf<uint64_t>(cursor);
    case kI64:
      return NumberOf<int64_t>(cursor);
    case kDouble:
      return NumberOf<double>(cursor);
    case kArray:
      return ReadArray(cursor);
    case kFloat: {
      ASSIGN_OR_RETURN(const float value, cursor.Number<float>());
      return Json(Shortest(value));
    }
    case kBool: {
      ASSIGN_OR_RETURN(const uint8_t value, cursor.Number<uint8_t>());
      return Json(value != 0);
    }
    case kString: {
      ASSIGN_OR_RETURN(std::string value, cursor.String());
      return Json(std::move(value));
    }
    default:
      return absl::InvalidArgumentError(absl::StrCat("unknown value type ", type));
  }
}

absl::StatusOr<Json> ReadMetadata(Cursor& cursor, uint64_t entries) {
  Json metadata = Json::object();
  for (uint64_t i = 0; i < entries; ++i) {
    ASSIGN_OR_RETURN(const std::string key, cursor.String(kMaxKeyBytes));
    ASSIGN_OR_RETURN(const uint32_t type, cursor.Number<uint32_t>());
    absl::StatusOr<Json> value = ReadValue(cursor, type);
    if (!value.ok()) return Annotate(value.status(), absl::StrCat("'", key, "'"));
    if (!metadata.emplace(key, *std::move(value)).second) {
      return absl::InvalidArgumentError(absl::StrCat("'", key, "' occurs twice"));
    }
  }
  return metadata;
}

// An entry of the table of tensors.
struct Entry {
  std::string name;
  TensorView view;  // Without its data.
  uint64_t offset = 0;
};

absl::Status SetType(uint32_t id, Entry& entry) {
  std::string supported;
  for (const TensorType& type : kTensorTypes) {
    const bool readable = type.dtype.has_value() || type.blocks != BlockFormat::kNone;
    if (readable) absl::StrAppend(&supported, supported.empty() ? "" : ", ", type.name);
    if (type.id != id || !readable) continue;
    entry.view.dtype = type.dtype.value_or(DType::kF32);
    entry.view.blocks = type.blocks;
    return absl::OkStatus();
  }
  std::string name = absl::StrCat("number ", id);
  for (const TensorType& type : kTensorTypes) {
    if (type.id == id) name = type.name;
  }
  return absl::UnimplementedError(
      absl::StrCat("tensor '", entry.name, "' has the type ", name, "; supported: ", supported));
}

// Sets the bytes that the shape and the type take.
absl::Status SetBytes(Entry& entry) {
  const bool plain = entry.view.blocks == BlockFormat::kNone;
  const BlockShape block = plain ? BlockShape{1, static_cast<int>(Bytes(entry.view.dtype, 1))}
                                 : ShapeOf(entry.view.blocks);
  if (entry.view.shape.back() % block.elements != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", entry.name, "' has rows of ",
                                                   entry.view.shape.back(),
                                                   " elements, but blocks of ", block.elements));
  }
  int64_t bytes = block.bytes;
  bool fits = !__builtin_mul_overflow(bytes, entry.view.shape.back() / block.elements, &bytes);
  for (size_t i = 0; i + 1 < entry.view.shape.size(); ++i) {
    fits = fits && !__builtin_mul_overflow(bytes, entry.view.shape[i], &bytes);
  }
  if (!fits) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", entry.name, "' is too large"));
  }
  entry.view.bytes = static_cast<size_t>(bytes);
  return absl::OkStatus();
}

absl::StatusOr<Entry> ReadEntry(Cursor& cursor) {
  Entry entry;
  ASSIGN_OR_RETURN(entry.name, cursor.String(kMaxKeyBytes));
  ASSIGN_OR_RETURN(const uint32_t dims, cursor.Number<uint32_t>());
  if (dims == 0 || dims > kMaxDims) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", entry.name, "' has ", dims,
                                                   " dimensions; it must have 1 to ", kMaxDims));
  }
  for (uint32_t i = 0; i < dims; ++i) {
    ASSIGN_OR_RETURN(const uint64_t size, cursor.Number<uint64_t>());
    if (size == 0 || size > uint64_t{1} << 40) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", entry.name, "' has a dimension of ", size));
    }
    // The file lists the elements of a row first.
    entry.view.shape.insert(entry.view.shape.begin(), static_cast<int64_t>(size));
  }
  ASSIGN_OR_RETURN(const uint32_t type, cursor.Number<uint32_t>());
  RETURN_IF_ERROR(SetType(type, entry));
  RETURN_IF_ERROR(SetBytes(entry));
  ASSIGN_OR_RETURN(entry.offset, cursor.Number<uint64_t>());
  return entry;
}

absl::StatusOr<size_t> ReadAlignment(const Json& metadata) {
  const auto found = metadata.find("general.alignment");
  if (found == metadata.end()) return kDefaultAlignment;
  const bool valid = found->is_number_unsigned() && *found >= kMinAlignment &&
                     *found <= kMaxAlignment && found->get<size_t>() % kMinAlignment == 0;
  if (!valid) {
    return absl::InvalidArgumentError(absl::StrCat("'general.alignment' is ", found->dump(),
                                                   "; it must be a multiple of ", kMinAlignment));
  }
  return found->get<size_t>();
}

// Adds the tensors of the table. `cursor` is at the table, and the data follows it.
absl::StatusOr<std::map<std::string, TensorView>> ReadTensors(Cursor& cursor, uint64_t count,
                                                              size_t alignment,
                                                              std::string_view file) {
  std::vector<Entry> entries;
  for (uint64_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(Entry entry, ReadEntry(cursor));
    entries.push_back(std::move(entry));
  }
  const size_t begin = (cursor.position() + alignment - 1) / alignment * alignment;
  std::map<std::string, TensorView> tensors;
  for (Entry& entry : entries) {
    const size_t data_bytes = file.size() - std::min(begin, file.size());
    if (entry.offset % alignment != 0 || entry.offset > data_bytes ||
        entry.view.bytes > data_bytes - entry.offset) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", entry.name, "' of ", entry.view.bytes, " bytes begins at byte ", entry.offset,
          " of ", data_bytes, ", aligned to ", alignment, "; is the file truncated?"));
    }
    entry.view.data = file.data() + begin + entry.offset;
    if (!tensors.emplace(entry.name, std::move(entry.view)).second) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", entry.name, "' occurs twice"));
    }
  }
  return tensors;
}

struct Contents {
  Json metadata;
  std::map<std::string, TensorView> tensors;
};

absl::StatusOr<Contents> ReadContents(std::string_view file) {
  if (file.substr(0, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("not a GGUF file");
  }
  Cursor cursor(file);
  RETURN_IF_ERROR(cursor.Number<uint32_t>().status());
  ASSIGN_OR_RETURN(const uint32_t version, cursor.Number<uint32_t>());
  if (version < kOldest || version > kNewest) {
    const bool swapped = __builtin_bswap32(version) <= kNewest;
    return absl::UnimplementedError(
        swapped ? std::string("a big-endian GGUF file; only little-endian ones are supported")
                : absl::StrCat("GGUF version ", version, "; only versions ", kOldest, " and ",
                               kNewest, " are supported"));
  }
  // An entry has at least a key, a type and a byte. A tensor has a name, dimensions and an offset.
  ASSIGN_OR_RETURN(const uint64_t tensors, cursor.Count(32));
  ASSIGN_OR_RETURN(const uint64_t entries, cursor.Count(13));
  Contents contents;
  ASSIGN_OR_RETURN(contents.metadata, ReadMetadata(cursor, entries));
  ASSIGN_OR_RETURN(const size_t alignment, ReadAlignment(contents.metadata));
  ASSIGN_OR_RETURN(contents.tensors, ReadTensors(cursor, tensors, alignment, file));
  return contents;
}

}  // namespace

absl::StatusOr<GgufFile> GgufFile::Open(const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<const MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<Contents> contents = ReadContents(file->bytes());
  if (!contents.ok()) return Annotate(contents.status(), path);
  return GgufFile(std::move(file), JsonObject(std::move(contents->metadata), path),
                  std::move(contents->tensors));
}

bool IsGguf(const std::string& path) {
  struct stat info;
  if (stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return false;
  char magic[kMagic.size()] = {};
  std::ifstream(path, std::ios::binary).read(magic, sizeof(magic));
  return std::string_view(magic, sizeof(magic)) == kMagic;
}

}  // namespace bastion::hub
