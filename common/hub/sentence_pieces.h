// Converts SentencePiece's BPE model, which has a score for each piece, to the merges and steps of
// Hugging Face's tokenizers. Internal to common/hub. Thread-safe: no state.
#ifndef BASTION_COMMON_HUB_SENTENCE_PIECES_H_
#define BASTION_COMMON_HUB_SENTENCE_PIECES_H_

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

namespace bastion::hub {

using PieceMerge = std::pair<std::string, std::string>;

// Every pair of pieces whose concatenation is a piece, in the order in which SentencePiece merges
// them: by the score of the result. REQUIRES: one score for each piece.
[[nodiscard]] std::vector<PieceMerge> PieceMerges(const std::vector<std::string>& pieces,
                                                  const std::vector<double>& scores);

// Adds the normalizer and the decoder: a space is "▁", and with `prefix`, one is put before the
// text.
void AddPieceSteps(bool prefix, nlohmann::json& tokenizer);

}  // namespace bastion::hub

#endif  // BASTION_COMMON_HUB_SENTENCE_PIECES_H_
