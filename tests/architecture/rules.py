"""What the architecture test enforces: change the rule here, and say why in the commit.

A key of MAY_INCLUDE is a folder; its value lists what its files may include besides their own
folder: folders (with everything below) or single headers. A folder that is not listed belongs to
the longest listed one above it. What no entry allows is an offence.
"""

_COMMON = ["common/base", "common/tree"]
_SERVICE = [*_COMMON, "common/hub", "common/nn", "common/cuda", "common/telemetry", "common/wire", "kernels",
            "protos/bastion/internal"]
_STAGES = "common/stages/stages.h"  # The Drafter and Verifier interfaces, without the cycle.

MAY_INCLUDE = {
    "common/base": [],
    "common/tree": ["common/base"],
    "common/wire": [*_COMMON, "protos/bastion/internal"],
    "common/hub": [*_COMMON],
    "common/telemetry": [*_COMMON],
    "kernels": ["common/base"],
    "common/nn": [*_COMMON, "common/hub", "kernels"],
    "common/cuda": [*_COMMON, "common/hub", "common/nn", "kernels"],
    "drafter_service": _SERVICE,
    "drafter_service/train": [*_COMMON, "common/hub"],  # Counts text; needs no engine.
    "verifier_service": _SERVICE,
    # Inside the orchestrator, from the bottom up.
    "orchestrator/tree": [*_COMMON],
    "orchestrator/latency": [*_COMMON, _STAGES],
    "orchestrator/budget": [*_COMMON, "orchestrator/tree", "orchestrator/latency", _STAGES],
    "orchestrator/cycle": [*_COMMON, "common/telemetry", "orchestrator/tree",
                           "orchestrator/latency", "orchestrator/budget"],
    "orchestrator/text": [*_COMMON, "common/hub"],
    "orchestrator/remote": [*_COMMON, "common/telemetry", "common/wire", _STAGES,
                            "protos/bastion/internal"],
    "orchestrator/serve": [*_COMMON, "common/hub", "common/telemetry", "common/wire", "orchestrator",
                           "protos/bastion/v1"],
    # Clients embed anything for benchmarks; nobody includes a client.
    "client": ["common", "kernels", "drafter_service", "verifier_service", "orchestrator", "protos"],
    "tests": ["common", "kernels", "drafter_service", "verifier_service", "orchestrator", "protos",
              "client"],
}

# Libraries that only some folders may see; a library that is not named here is free for all.
LIBRARIES = {
    "torch": (("ATen/", "torch/", "c10/"),
              ["common/nn", "drafter_service", "verifier_service", "tests"]),
    "protobuf and gRPC": (("grpcpp/", "grpc/", "google/protobuf/"),
                          ["common/wire", "common/telemetry", "drafter_service/serve",
                           "verifier_service/serve", "orchestrator/remote", "orchestrator/serve",
                           "client", "tests"]),
    "the Rust border": (("common/hub/ffi.h", "common/hub/border.h"), ["common/hub", "tests"]),
}
TORCH = LIBRARIES["torch"][0]
GENERATED = ".pb.h"

# Where the preprocessor may decide: Highway compiles a kernel once for each instruction set.
CONDITIONALS_ALLOWED = ["kernels/cpu/", "kernels/backend/backend.cc", "kernels/thread_pool.cc",
                        "kernels/cuda/simt/simt.h"]
NDEBUG_ALLOWED = ["common/base/check.h", "tests/"]

# Flags and the environment are read here, and handed on as plain structs.
SETTINGS_ALLOWED = ["main.cc", "flags.cc", "flags.h"]

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 5
MAX_CONFIG_FIELDS = 12
CONFIG_NAMES = ("Config", "Options", "Settings", "Params", "Flags")

README_WORDS = 900  # The README has fewer.
README_LINES = 150
MAX_PAGE_LINES = 200  # Of a page in docs/.
REQUIRED_FILES = ["LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", ".editorconfig",
                  ".pre-commit-config.yaml"]

SKIPPED_FOLDERS = {"build", ".git", "__pycache__", "target"}
CODE_SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".py", ".rs", ".sh", ".proto", ".cmake")
