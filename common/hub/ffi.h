// The C functions of the Rust crate in rust/: Hugging Face's tokenizer and safetensors code and a
// Jinja engine, behind opaque handles. Only the .cc files of this folder call them.
//
// Contract of every function that returns a BastionHubStatus:
//
// `code` is an absl::StatusCode. If it is not 0 (OK), `message` says what was wrong and the output
// arguments are unchanged. The caller frees the message with bastion_hub_text_free.
//
// A Rust panic is caught and becomes code 13 (INTERNAL). It never aborts the process.
//
// Input text is a pointer and a length. It need not end in NUL, and Rust does not keep it after the
// call. Where UTF-8 is required, Rust checks it and returns 3 (INVALID_ARGUMENT).
//
// The caller owns output text and ids and frees them with the matching _free function.
//
// Handles are immutable after creation, and any number of threads may use a handle concurrently.
// The exception is BastionHubDetokenizer. rust/src/boundary.rs declares the same types: change both
// files together.
#ifndef BASTION_COMMON_HUB_FFI_H_
#define BASTION_COMMON_HUB_FFI_H_

#include <cstddef>
#include <cstdint>

extern "C" {

// Borrowed bytes. As an argument: valid during the call.
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
// Returns the largest id plus one.
BastionHubStatus bastion_hub_tokenizer_vocabulary(const BastionHubTokenizer* tokenizer,
                                                  uint32_t* out);
// Returns the bytes of the longest text that one token represents.
BastionHubStatus bastion_hub_tokenizer_longest_token(const BastionHubTokenizer* tokenizer,
                                                     uint32_t* out);
// Returns the bytes that the token adds to a text. They are valid as long as the tokenizer. Empty
// for a special token and for an id without a token.
BastionHubBytes bastion_hub_tokenizer_token_bytes(const BastionHubTokenizer* tokenizer,
                                                  uint32_t id);
BastionHubStatus bastion_hub_tokenizer_encode(const BastionHubTokenizer* tokenizer,
                                              BastionHubBytes text, bool add_special,
                                              BastionHubIds* out);
BastionHubStatus bastion_hub_tokenizer_decode(const BastionHubTokenizer* tokenizer,
                                              const uint32_t* ids, size_t count, bool skip_special,
                                              BastionHubText* out);
// Returns the special token of `text` with the lowest id; an empty text if there is none.
BastionHubStatus bastion_hub_tokenizer_special_in(const BastionHubTokenizer* tokenizer,
                                                  BastionHubBytes text, BastionHubText* out);
// 5 (NOT_FOUND) if there is no token with this text.
BastionHubStatus bastion_hub_tokenizer_find(const BastionHubTokenizer* tokenizer,
                                            BastionHubBytes token, uint32_t* out);

// ---- incremental text ----

// Length of the longest prefix of `text` that is UTF-8.
size_t bastion_hub_utf8_valid_up_to(BastionHubBytes text);

// Converts token ids to text while they arrive. One thread at a time; the tokenizer must outlive
// it.
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
// `variables` is a JSON object. Its keys are the variables of the template. `now`, in microseconds
// since 1970, is the time of strftime_now.
BastionHubStatus bastion_hub_template_render(const BastionHubTemplate* chat_template,
                                             BastionHubBytes variables, int64_t now,
                                             BastionHubText* out);

// ---- grammars ----

// Compiles grammars for one vocabulary.
struct BastionHubGrammarCompiler;
// What a text has matched of a grammar. One thread at a time.
struct BastionHubGrammarState;

// Asks whether the result of a call is still needed, from any thread, now and then.
struct BastionHubCancellation {
  bool (*is_canceled)(const void* context);
  const void* context;  // Null: it is.
};

// `vocabulary` is that of the model. `ends` are the tokens that end an answer, at least one.
BastionHubStatus bastion_hub_grammar_compiler_new(const BastionHubTokenizer* tokenizer,
                                                  uint32_t vocabulary, const uint32_t* ends,
                                                  size_t end_count,
                                                  BastionHubGrammarCompiler** out);
void bastion_hub_grammar_compiler_free(BastionHubGrammarCompiler* compiler);
// `kind` is 0 for a JSON schema, 1 for a regular expression, 2 for a Lark grammar, 3 for one with
// schemas (GrammarKind). Returns the state before the first token. 1 (CANCELLED) if it is no longer
// needed.
BastionHubStatus bastion_hub_grammar_compile(const BastionHubGrammarCompiler* compiler,
                                             uint32_t kind, BastionHubBytes text,
                                             BastionHubCancellation cancellation,
                                             BastionHubGrammarState** out);
BastionHubStatus bastion_hub_grammar_state_copy(const BastionHubGrammarState* state,
                                                BastionHubGrammarState** out);
void bastion_hub_grammar_state_free(BastionHubGrammarState* state);
// The memory that the state takes, with the compiled grammar.
size_t bastion_hub_grammar_state_bytes(const BastionHubGrammarState* state);
// Writes ceil(vocabulary / 32) words. Bit i of word w is token 32 w + i, and is set if the
// token may follow. 8 (RESOURCE_EXHAUSTED) if the grammar is too complex, 4 (DEADLINE_EXCEEDED) if
// it takes more than `nanoseconds` of CPU time. After both, the state must not be used.
BastionHubStatus bastion_hub_grammar_state_allowed(BastionHubGrammarState* state,
                                                   uint64_t nanoseconds, uint32_t* bits);
// The text that must follow, or its first 256 bytes. Empty inside a character.
BastionHubStatus bastion_hub_grammar_state_forced(BastionHubGrammarState* state,
                                                  BastionHubText* out);
// 3 (INVALID_ARGUMENT) if the grammar does not allow the token. 4 and 8 as above.
BastionHubStatus bastion_hub_grammar_state_push(BastionHubGrammarState* state, uint64_t nanoseconds,
                                                uint32_t token);
// Undoes the last `count` pushes.
BastionHubStatus bastion_hub_grammar_state_pop(BastionHubGrammarState* state, size_t count);
// True if only the end may follow.
bool bastion_hub_grammar_state_complete(const BastionHubGrammarState* state);

// ---- safetensors ----

// Checks the header of a file against the file's size and returns the table of contents as a JSON
// object {name: {"dtype": text, "shape": [..], "begin": offset, "end": offset}}. Offsets count from
// the first byte of the file. It reads only the header.
BastionHubStatus bastion_hub_safetensors_contents(BastionHubBytes file, BastionHubText* out);

}  // extern "C"

#endif  // BASTION_COMMON_HUB_FFI_H_
