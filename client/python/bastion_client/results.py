"""What the server sends. All are immutable. Times are in seconds."""

import dataclasses
import enum
from typing import Mapping, Optional, Tuple


class _OpenEnum(enum.IntEnum):
    """Values that a newer server may add count as UNSPECIFIED."""

    @classmethod
    def _missing_(cls, value: object) -> "_OpenEnum":
        return cls(0)


class FinishReason(_OpenEnum):
    UNSPECIFIED = 0
    STOP = 1  # EOS, a stop token or a stop string.
    LENGTH = 2  # max_tokens, or the context is full.


class NodeSource(_OpenEnum):
    """What proposed a node of a draft tree."""

    UNSPECIFIED = 0
    DRAFT = 1  # The drafter.
    TABLE = 2  # The transition table.
    REQUEST = 3  # The prompt and output of this request.
    LEARNED = 4  # The counts of all requests.


@dataclasses.dataclass(frozen=True)
class Started:
    request_id: str  # As in the server's log.
    model: str
    prompt_tokens: int


@dataclasses.dataclass(frozen=True)
class TopLogprob:
    token_id: int
    logprob: float
    bytes: bytes  # See TokenLogprobs.


@dataclasses.dataclass(frozen=True)
class TokenLogprobs:
    """Log-probabilities of the model, before the sampling parameters are applied."""

    token_id: int
    logprob: float
    top: Tuple[TopLogprob, ...]  # The most probable tokens, in descending order.
    # What the token adds to the text. Joined, the bytes of all tokens spell the text.
    bytes: bytes


@dataclasses.dataclass(frozen=True)
class TreeNode:
    parent: int  # 0: the root. i: nodes[i - 1], which comes before this node.
    token_id: int
    text: str  # The text of this token alone.
    path_probability: float  # Predicted, of the tokens from the root to this node.
    source: NodeSource
    accepted: bool


@dataclasses.dataclass(frozen=True)
class VerifiedTree:
    """A draft tree, and what the target chose."""

    root_token_id: int  # The last token before this cycle.
    root_text: str
    nodes: Tuple[TreeNode, ...]
    next_token_id: int  # The target's choice after the last accepted node.
    next_text: str


@dataclasses.dataclass(frozen=True)
class CycleReport:
    """One cycle of an answer: the size of its draft tree, the outcome, and the time of each stage.
    The stages from `draft` to `audit` sum to the duration of the cycle."""

    nodes: int  # Nodes of the tree, without the root.
    committed_length: int  # Tokens that the cycle added to the output.
    budget_reason: str  # Why the tree has no further nodes.
    rows: int  # Rows of the verify call, all requests together.
    predicted_verify: float  # Predicted value of `verify`.
    measured_verify: float  # Equals `verify`.
    draft: float  # Waiting for the draft.
    tree: float  # Growing the trees.
    verify: float  # Layout, forward and acceptance.
    commit: float  # KV compaction and feature export.
    transfer: float  # The rest of the verify call.
    verify_queue: float  # Waiting for the verifier's engine.
    audit: float  # Decoding the cycle again for the audit.
    share: float  # Fraction (0 to 1) of these times that this request caused.
    verified_tree: Optional[VerifiedTree]  # If requested.
    expected_length: float  # The committed length that the policy expected.
    accepted_nodes: int  # Nodes that the target accepted, also those after the end.
    context: int  # Cached tokens before the cycle.


@dataclasses.dataclass(frozen=True)
class Delta:
    """The output of one or more cycles of an answer."""

    text: str  # Whole characters only. May lag behind the tokens.
    token_ids: Tuple[int, ...]  # If requested.
    cycles: Tuple[CycleReport, ...]  # In order, if requested.
    logprobs: Tuple[TokenLogprobs, ...]  # One per token, if requested.
    answer: int  # Which of the n answers, from 0.


@dataclasses.dataclass(frozen=True)
class Usage:
    prompt_tokens: int
    completion_tokens: int
    cached_prompt_tokens: int  # Not computed, because an earlier request began with them.


@dataclasses.dataclass(frozen=True)
class Timings:
    queue: float  # Waiting to be admitted.
    prefill: float  # From admission to the end of prefill.
    first_token: float  # From arrival to the first output.
    decode: float  # From the end of prefill to the end.
    total: float  # From arrival to the end.
    # Sums over the cycles of this request, as in CycleReport.
    draft: float
    tree: float
    verify: float
    commit: float
    transfer: float
    verify_queue: float
    audit: float


@dataclasses.dataclass(frozen=True)
class SpeculationStats:
    policy: str
    cycles: int
    drafted_cycles: int  # Cycles that requested a draft.
    draft_tokens: int  # Nodes sent to the verifier.
    accepted_tokens: int  # Accepted nodes.
    mean_committed_length: float  # Tokens per cycle.
    accepted_per_depth: Tuple[int, ...]  # Accepted nodes at depth 1, 2, …
    verify_prediction_error_median: float  # Median of |predicted − measured| / measured.


@dataclasses.dataclass(frozen=True)
class SourceTotals:
    source: NodeSource
    nodes: int
    accepted: int
    expected: float  # Accepted nodes that their path probabilities predicted.


@dataclasses.dataclass(frozen=True)
class DraftTotals:
    """Where the nodes of an answer came from, and why its trees ended."""

    sources: Tuple[SourceTotals, ...]  # Those with nodes.
    budget_reasons: Mapping[str, int]  # Cycles by CycleReport.budget_reason.
    predicted_verify: float  # Sum over the cycles.
    measured_verify: float  # Sum over the cycles.


@dataclasses.dataclass(frozen=True)
class Finished:
    """The end of an answer."""

    reason: FinishReason
    stop_string: Optional[str]  # The stop string that ended it, if one did.
    stop_token_id: Optional[int]  # The token that ended it, if one did.
    usage: Usage
    timings: Timings
    speculation: SpeculationStats
    seed: int  # The seed that was used.
    answer: int  # Which of the n answers, from 0.
    totals: Optional[DraftTotals]  # If requested.
    waited_for_room: bool  # It waited in the queue for a slot or for memory.


@dataclasses.dataclass(frozen=True)
class Model:
    name: str
    vocabulary: int
    max_context: int  # Tokens.
    has_chat_template: bool
    drafter: str  # Empty: no drafter is connected.
    # How the target's features reach the drafter, for people. Empty: it reads none.
    drafter_features: str


@dataclasses.dataclass(frozen=True)
class ServerInfo:
    version: str
    device: str
    default_policy: str
    running_requests: int
    waiting_requests: int
    audited_tokens: int  # Totals of the verifier's audit since the verifier started.
    audit_mismatches: int
    parked_requests: int  # Their clients do not read.
    preemptions: int  # Requests that lost their memory and continued later.
    free_kv_tokens: int  # Tokens that fit into the free pages of the KV cache.
