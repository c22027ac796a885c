"""Client of bastion, which serves language models with lossless tree speculation.

    from bastion_client import Client, StopConditions

    with Client('127.0.0.1:7070') as client:
        for delta in client.generate('def f(', stop=StopConditions(max_tokens=64)):
            print(delta.text, end='', flush=True)

AsyncClient is the same for asyncio.
"""

from bastion_client._client_base import DEFAULT_ADDRESS
from bastion_client._connection import VERSION as __version__
from bastion_client.aio import AsyncAnswer, AsyncClient
from bastion_client.client import Answer, Client
from bastion_client.errors import (
    BastionError,
    Cancelled,
    DeadlineExceeded,
    FieldViolation,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    Unauthenticated,
    Unavailable,
)
from bastion_client.options import (
    ChatMessage,
    ChatMessages,
    ClientOptions,
    Constraint,
    OutputOptions,
    Prompt,
    RetryPolicy,
    SamplingParams,
    SchemaGrammar,
    SpeculationMode,
    SpeculationOptions,
    StopConditions,
    TokenIds,
    TraceContext,
)
from bastion_client.results import (
    CycleReport,
    Delta,
    DraftTotals,
    Finished,
    FinishReason,
    Model,
    NodeSource,
    ServerInfo,
    SourceTotals,
    SpeculationStats,
    Started,
    Timings,
    TokenLogprobs,
    TopLogprob,
    TreeNode,
    Usage,
    VerifiedTree,
)

__all__ = [
    "Answer",
    "AsyncAnswer",
    "AsyncClient",
    "BastionError",
    "Cancelled",
    "ChatMessage",
    "ChatMessages",
    "Client",
    "ClientOptions",
    "Constraint",
    "CycleReport",
    "DEFAULT_ADDRESS",
    "DeadlineExceeded",
    "Delta",
    "DraftTotals",
    "FieldViolation",
    "FinishReason",
    "Finished",
    "InvalidArgument",
    "Model",
    "NodeSource",
    "NotFound",
    "OutputOptions",
    "PermissionDenied",
    "Prompt",
    "ResourceExhausted",
    "RetryPolicy",
    "SamplingParams",
    "SchemaGrammar",
    "ServerInfo",
    "SourceTotals",
    "SpeculationMode",
    "SpeculationOptions",
    "SpeculationStats",
    "Started",
    "StopConditions",
    "Timings",
    "TokenIds",
    "TokenLogprobs",
    "TopLogprob",
    "TraceContext",
    "TreeNode",
    "Unauthenticated",
    "Unavailable",
    "Usage",
    "VerifiedTree",
    "__version__",
]
