"""Options of clients and requests, and prompts. All are immutable.

In a request, None means the server's default. The server checks the ranges and refuses a value with
InvalidArgument, which names the field.
"""

import dataclasses
import enum
import os
from typing import Any, Callable, Mapping, Optional, Sequence, Union

Path = Union[str, "os.PathLike[str]"]
# Headers of W3C Trace Context: 'traceparent', and maybe 'tracestate'. Other keys are ignored.
TraceContext = Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class TokenIds:
    """A prompt of token ids of the served model."""

    ids: Sequence[int]


@dataclasses.dataclass(frozen=True)
class ChatMessage:
    role: str  # E.g. 'system', 'user', 'assistant' or 'tool'.
    content: str
    fields_json: Optional[str] = None  # A JSON object: further fields, e.g. '{"tool_calls": […]}'.


@dataclasses.dataclass(frozen=True)
class ChatMessages:
    """A conversation. The server renders it with the model's chat template."""

    messages: Sequence[ChatMessage]
    # Further variables of the template, e.g. {'enable_thinking': False} with Qwen3. Names lose their
    # order and integers become floats; template_args_json, a JSON object, keeps them.
    template_args: Optional[Mapping[str, Any]] = None
    template_args_json: Optional[str] = None
    tools_json: Optional[str] = None  # A JSON list: the tools that the model may call.


# A str is text to continue.
Prompt = Union[str, TokenIds, ChatMessages]


@dataclasses.dataclass(frozen=True)
class SamplingParams:
    """How tokens are chosen. The text depends on the prompt, these fields, the seed and the
    weights. It does not depend on speculation or on other requests."""

    temperature: Optional[float] = None  # 0 (default): greedy. Else 0.00001 to 100.
    seed: Optional[int] = None  # Default: random. Finished.seed is the one that was used.
    top_p: Optional[float] = None  # Above 0, at most 1. 1 (default): off.
    top_k: Optional[int] = None  # 0 (default): off.
    min_p: Optional[float] = None  # Relative to the most probable token. 0 (default): off.
    repetition_penalty: Optional[float] = None  # Above 0, at most 100. 1 (default): off.
    presence_penalty: Optional[float] = None  # -2 to 2. 0 (default): off.
    frequency_penalty: Optional[float] = None  # -2 to 2. 0 (default): off.
    logit_bias: Optional[Mapping[int, float]] = None  # By token id. -100 to 100 each.


@dataclasses.dataclass(frozen=True)
class StopConditions:
    max_tokens: Optional[int] = None  # Default: as many as fit into the context and the KV cache.
    min_tokens: Optional[int] = None  # No stop condition applies before. Default: 0.
    stop: Sequence[str] = ()  # The output does not contain them.
    stop_token_ids: Sequence[int] = ()  # These tokens end the output.
    ignore_eos: bool = False  # Do not stop at the model's end-of-sequence tokens.


@dataclasses.dataclass(frozen=True)
class SchemaGrammar:
    """A Lark grammar some of whose rules are JSON schemas."""

    grammar: str  # It begins with `start`.
    # By the name of the rule, which has only the characters a to z, 0 to 9 and _.
    json_schemas: Mapping[str, str]


@dataclasses.dataclass(frozen=True)
class Constraint:
    """A language that the text of an answer belongs to. Set one of the first four fields. An answer
    that ends with FinishReason.STOP obeys it, unless a stop string or stop token cut it off."""

    json_schema: Optional[str] = None  # A JSON schema, as JSON text.
    regex: Optional[str] = None  # The whole text matches.
    grammar: Optional[str] = None  # A Lark grammar. It begins with `start`.
    schema_grammar: Optional[SchemaGrammar] = None
    # It holds for the text after the reasoning of a model that thinks. Not with `regex`.
    after_reasoning: bool = False


@dataclasses.dataclass(frozen=True)
class OutputOptions:
    """What deltas contain besides text."""

    token_ids: bool = False
    logprobs: Optional[int] = None  # Log-probabilities of each token and of this many alternatives.
    cycles: bool = False  # A CycleReport per cycle.
    trees: bool = False  # A CycleReport with its draft tree per cycle.
    totals: bool = False  # DraftTotals in Finished.


class SpeculationMode(enum.IntEnum):
    OFF = 1  # Decode without speculation.
    ON = 2  # Use the policy.


@dataclasses.dataclass(frozen=True)
class SpeculationOptions:
    """How the server speculates. It changes the speed, never the text."""

    mode: Optional[SpeculationMode] = None
    policy: Optional[str] = None  # E.g. 'adaptive', 'fixed:16' or 'beam:4x15'.
    max_tree_nodes: Optional[int] = None  # Limit for the nodes of a draft tree. 0: no speculation.
    # Milliseconds between two deltas that should not be exceeded. Default: none.
    latency_target_ms: Optional[int] = None


@dataclasses.dataclass(frozen=True)
class RetryPolicy:
    """When a failed call is tried again: after UNAVAILABLE, and after RESOURCE_EXHAUSTED if the
    server says how long to wait. Never after the first token of an answer, and never beyond the
    timeout. A pause is what the server asks for, plus 50 to 100 % of the back-off."""

    max_attempts: int = 5  # 1: no retry.
    initial_backoff: float = 0.1  # Seconds before the second attempt, at most.
    multiplier: float = 2.0  # Growth of the back-off from one attempt to the next.
    max_backoff: float = 5.0  # Seconds.


@dataclasses.dataclass(frozen=True)
class ClientOptions:
    # PEM file with the authorities that may sign the server's certificate. None: clear text. Unix
    # sockets never use TLS.
    tls_ca: Optional[Path] = None
    tls_cert: Optional[Path] = None  # PEM file with the client's certificate chain, for mutual TLS.
    tls_key: Optional[Path] = None  # PEM file with its private key.
    # Bearer token. None: the one in token_file. repr() does not show it.
    token: Optional[str] = dataclasses.field(default=None, repr=False)
    token_file: Optional[Path] = None  # File with the bearer token. The client reads it once.
    # Name of the client, for fairness among clients. It counts only if the server asks for neither
    # a token nor a certificate.
    client_id: Optional[str] = None
    # Seconds that an answer may take, with all attempts and pauses. None: no limit.
    timeout: Optional[float] = 600.0
    # While the server cannot be reached, calls wait until their timeout instead of failing.
    wait_for_ready: bool = False
    retry: RetryPolicy = RetryPolicy()
    # Called at the start of every call, in the caller's thread. Returns the call's trace context.
    trace: Optional[Callable[[], Optional[TraceContext]]] = None
    max_message_bytes: int = 64 << 20  # Larger messages of the server end the call.

    @classmethod
    def from_environment(cls, **options: Any) -> "ClientOptions":
        """The options of the environment variables BASTION_TLS_CA, BASTION_TLS_CERT,
        BASTION_TLS_KEY and BASTION_TOKEN_FILE, and those given, which take precedence."""
        files = {
            name: os.environ.get(f"BASTION_{name.upper()}") or None for name in ("tls_ca", "tls_cert", "tls_key", "token_file")
        }
        return cls(**{**files, **options})
