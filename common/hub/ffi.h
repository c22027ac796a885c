// The C functions of the Rust crate in rust/: Hugging Face's own tokenizer, chat-template and
// safetensors code behind opaque handles. Nobody but the .cc files of this folder calls them.
//
// Contract, the same for every function that returns a BastionHubStatus:
//  - `code` is an absl::StatusCode; for anything but 0 (OK) `message` says what was wrong, the
//  output
//    arguments are untouched, and the caller frees the message with bastion_hub_text_free.
//  - A Rust panic is caught at the border and becomes code 13 (INTERNAL). Nothing aborts.
//  - Text goes in as pointer and length, need not end in NUL and is not kept after the call. Where
//  the
//    Rust side needs UTF-8 it checks, and answers 3 (INVALID_ARGUMENT).
//  - Text and ids that come out belong to the caller, who frees them with the matching _free.
//
// Thread rule: handles are immutable once made; any number of threads may use one at a time.
// The Rust twin of these declarations is rust/src/border.rs: change both together.
#ifndef BASTION_COMMON_HUB_FFI_H_
#define BASTION_COMMON_HUB_FFI_H_

#include <cstddef>
#include <cstdint>

extern "C" {

// Borrowed bytes, valid for the length of a call.
struct BastionHubBytes {
  const uint8_t* data;
  size_t size;
};

struct BastionHubText {
  uint8_t* data;
  size_t size;
};

struct BastionHubIds {
  uint32_t* data;
  size_t size;
};

struct BastionHubStatus {
  int32_t code;
  BastionHubText message;
};

void bastion_hub_text_free(BastionHubText text);
void bastion_hub_ids_free(BastionHubIds ids);

// ---- tokenizer.json ----

struct BastionHubTokenizer;

BastionHubStatus bastion_hub_tokenizer_new(BastionHubBytes json, BastionHubTokenizer** out);
void bastion_hub_tokenizer_free(BastionHubTokenizer* tokenizer);
// One past the largest id.
BastionHubStatus bastion_hub_tokenizer_vocabulary(const BastionHubTokenizer* tokenizer,
                                                  uint32_t* out);
BastionHubStatus bastion_hub_tokenizer_encode(const BastionHubTokenizer* tokenizer,
                                              BastionHubBytes text, bool add_special,
                                              BastionHubIds* out);
BastionHubStatus bastion_hub_tokenizer_decode(const BastionHubTokenizer* tokenizer,
                                              const uint32_t* ids, size_t count, bool skip_special,
                                              BastionHubText* out);
// 5 (NOT_FOUND) where no token is written so.
BastionHubStatus bastion_hub_tokenizer_find(const BastionHubTokenizer* tokenizer,
                                            BastionHubBytes token, uint32_t* out);

// ---- text in pieces ----

// Length of the longest front of `text` that is UTF-8.
size_t bastion_hub_utf8_valid_up_to(BastionHubBytes text);

// Token ids to text while they arrive. One thread at a time; the tokenizer must outlive it.
struct BastionHubDetokenizer;

BastionHubDetokenizer* bastion_hub_detokenizer_new(const BastionHubTokenizer* tokenizer);
void bastion_hub_detokenizer_free(BastionHubDetokenizer* detokenizer);
BastionHubText bastion_hub_detokenizer_push(BastionHubDetokenizer* detokenizer, const uint32_t* ids,
                                            size_t count);
BastionHubText bastion_hub_detokenizer_finish(BastionHubDetokenizer* detokenizer);

// ---- chat templates ----

struct BastionHubTemplate;

BastionHubStatus bastion_hub_template_new(BastionHubBytes source, BastionHubTemplate** out);
void bastion_hub_template_free(BastionHubTemplate* chat_template);
// `variables` is a JSON object: what the template sees under the names of its keys.
BastionHubStatus bastion_hub_template_render(const BastionHubTemplate* chat_template,
                                             BastionHubBytes variables, BastionHubText* out);

// ---- safetensors ----

// Checks a whole file, header against size, and gives its table of contents as a JSON object
// {name: {"dtype": text, "shape": [..], "begin": offset, "end": offset}}, offsets from the file's
// first byte. Only the header is read.
BastionHubStatus bastion_hub_safetensors_contents(BastionHubBytes file, BastionHubText* out);

}  // extern "C"

#endif  // BASTION_COMMON_HUB_FFI_H_
