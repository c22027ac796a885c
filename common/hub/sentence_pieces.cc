#include "common/hub/sentence_pieces.h"

#include <algorithm>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace bastion::hub {
namespace {

using Json = nlohmann::json;

constexpr const char* kSpace = "\xE2\x96\x81";  // "▁", U+2581
constexpr size_t kMaxPieceBytes = 4096;         // Longer pieces are never merged.

bool ContinuesCharacter(char byte) { return (byte & 0xC0) == 0x80; }

int Characters(std::string_view text) {
  return static_cast<int>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !ContinuesCharacter(byte); }));
}

struct Candidate {
  std::string_view left, right;
  double score = 0;  // The score of the merged piece.
  int left_id = 0, right_id = 0;

  // Higher scores first, then longer parts. Pieces with equal keys keep their order.
  [[nodiscard]] auto Key() const {
    return std::make_tuple(-score, -Characters(left), -Characters(right));
  }
};

}  // namespace

std::vector<PieceMerge> PieceMerges(const std::vector<std::string>& pieces,
                                    const std::vector<double>& scores) {
  std::unordered_map<std::string_view, int> ids;
  for (size_t id = 0; id < pieces.size(); ++id) ids.emplace(pieces[id], static_cast<int>(id));
  std::vector<Candidate> candidates;
  for (size_t id = 0; id < pieces.size(); ++id) {
    const std::string_view piece = pieces[id];
    if (piece.size() > kMaxPieceBytes) continue;
    const size_t begin = candidates.size();
    for (size_t at = 1; at < piece.size(); ++at) {
      if (ContinuesCharacter(piece[at])) continue;
      const auto left = ids.find(piece.substr(0, at)), right = ids.find(piece.substr(at));
      if (left == ids.end() || right == ids.end()) continue;
      candidates.push_back({left->first, right->first, scores[id], left->second, right->second});
    }
    std::sort(candidates.begin() + static_cast<std::ptrdiff_t>(begin), candidates.end(),
              [](const Candidate& a, const Candidate& b) {
                return std::tie(a.left_id, a.right_id) < std::tie(b.left_id, b.right_id);
              });
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.Key() < b.Key(); });
  std::vector<PieceMerge> merges;
  merges.reserve(candidates.size());
  for (const Candidate& candidate : candidates) {
    merges.emplace_back(std::string(candidate.left), std::string(candidate.right));
  }
  return merges;
}

void AddPieceSteps(bool prefix, Json& tokenizer) {
  const auto replace = [](const char* from, const char* to) {
    return Json{{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
  };
  Json normalizers = Json::array(), decoders = Json::array();
  if (prefix) normalizers.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  normalizers.push_back(replace(" ", kSpace));
  decoders.push_back(replace(kSpace, " "));
  decoders.push_back({{"type", "ByteFallback"}});
  decoders.push_back({{"type", "Fuse"}});
  if (prefix) {
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  }
  tokenizer["normalizer"] = {{"type", "Sequence"}, {"normalizers", normalizers}};
  tokenizer["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
}

}  // namespace bastion::hub
