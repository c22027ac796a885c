"""The rules that the architecture test enforces. To change a rule, edit it here and explain why in the commit message.

A key of MAY_INCLUDE is a folder. Its value lists the other folders whose headers it may include.
A file belongs to the longest listed folder above it. Every include that is not listed is a finding.
The lists must not form a cycle.
"""

_DATA = ["common/base", "common/stages"]
_INTERNAL = "protos/bastion/internal/v1"

MAY_INCLUDE = {
    "protos/bastion/internal/v1": [],
    "protos/bastion/v1": [],
    "common/base": [],
    "common/stages": ["common/base"],
    "common/hub": [*_DATA],
    "common/prior": ["common/base", "common/hub"],
    "common/shm": [*_DATA],  # Neither gRPC nor protos.
    "common/access": ["common/base"],  # Used by gRPC and HTTP servers: knows neither.
    "common/wire": [*_DATA, "common/access", "common/shm", _INTERNAL],
    "common/host": ["common/base", "common/shm", "common/stages", "common/wire", _INTERNAL],  # The shell of a gRPC server.
    "common/http": ["common/access", "common/base"],
    "common/telemetry": ["common/base", "common/http", "common/wire"],
    "common/inspection": ["common/base", "common/telemetry", "common/wire", "protos/bastion/v1"],
    "kernels/ops": ["common/base"],  # What every backend implements.
    "kernels/cpu": ["common/base", "kernels/ops"],
    "kernels/torch": ["common/base", "kernels/ops"],
    "kernels/cuda/runtime": ["common/base"],
    "kernels/cuda/simt": ["common/base", "kernels/ops", "kernels/cuda/runtime"],
    "kernels/cuda/product": ["common/base", "kernels/ops", "kernels/cuda/runtime", "kernels/cuda/simt"],
    "kernels/cuda": ["kernels/ops", "kernels/cuda/product", "kernels/cuda/runtime", "kernels/cuda/simt"],
    "kernels/cuda/attention": ["common/base", "kernels/cuda", "kernels/cuda/simt"],
    "kernels/cuda/choose": ["common/base", "kernels/ops", "kernels/cuda", "kernels/cuda/runtime", "kernels/cuda/simt"],
    "kernels/cuda/gemm": ["common/base", "kernels/ops", "kernels/cuda/runtime"],
    # engine/model is written over engine/model/device.h, and knows no device.
    "engine/model": [*_DATA, "common/hub", "kernels/ops"],
    "engine/host": ["common/base", "engine/model", "kernels/ops"],
    "engine/cuda": [
        "common/base",
        "engine/model",
        "kernels/cuda",
        "kernels/cuda/gemm",
        "kernels/cuda/product",
        "kernels/cuda/runtime",
    ],
    "engine/program": ["common/base", "engine/model", "engine/host", "engine/cuda", "kernels/cpu", "kernels/torch"],
    # The two services never include each other.
    "drafter_service/draft": [*_DATA, "common/hub", "common/prior", "engine/model", "kernels/ops"],
    "drafter_service/engine": [*_DATA, "engine/model", "drafter_service/draft"],
    "drafter_service/features": [*_DATA, "common/shm", "common/wire", _INTERNAL],
    "drafter_service/replay": [*_DATA, "common/hub", "drafter_service/engine"],
    "drafter_service/serve": [
        *_DATA,
        "common/host",
        "common/inspection",
        "engine/program",
        "common/telemetry",
        "common/wire",
        _INTERNAL,
        "drafter_service/engine",
        "drafter_service/features",
        "drafter_service/replay",
    ],
    "verifier_service/verify": [*_DATA, "engine/model", "kernels/ops"],
    "verifier_service/features": [*_DATA, "common/shm", "common/wire", "engine/model", _INTERNAL],
    "verifier_service/model": [
        *_DATA,
        "common/hub",
        "common/shm",
        "engine/model",
        "verifier_service/features",
        "verifier_service/verify",
    ],
    "verifier_service/engine": [
        *_DATA,
        "common/hub",
        "engine/model",
        "verifier_service/features",
        "verifier_service/model",
        "verifier_service/verify",
    ],
    "verifier_service/serve": [
        *_DATA,
        "common/host",
        "common/inspection",
        "engine/program",
        "common/telemetry",
        "common/wire",
        _INTERNAL,
        "verifier_service/engine",
        "verifier_service/features",
    ],
    # The orchestrator, from the bottom up. It never includes an engine.
    "orchestrator/tree": [*_DATA],
    "orchestrator/prior": [*_DATA, "common/hub", "common/prior", "orchestrator/tree"],
    "orchestrator/cost": [*_DATA],
    "orchestrator/profile": [*_DATA, "orchestrator/cost"],
    "orchestrator/planner": ["common/stages", "orchestrator/cost"],
    "orchestrator/belief": [*_DATA, "orchestrator/cost", "orchestrator/planner", "orchestrator/tree"],
    "orchestrator/policy": [
        *_DATA,
        "common/hub",
        "orchestrator/belief",
        "orchestrator/cost",
        "orchestrator/planner",
        "orchestrator/prior",
        "orchestrator/tree",
    ],
    "orchestrator/cycle": [*_DATA, "orchestrator/cost", "orchestrator/planner", "orchestrator/policy"],
    "orchestrator/text": ["common/base"],
    "orchestrator/remote": [*_DATA, "common/telemetry", "common/wire", _INTERNAL],
    "orchestrator/schedule": [
        *_DATA,
        "common/hub",
        "common/telemetry",
        "common/wire",
        "orchestrator/belief",
        "orchestrator/cost",
        "orchestrator/cycle",
        "orchestrator/policy",
        "orchestrator/prior",
        "orchestrator/profile",
        "orchestrator/text",
        "protos/bastion/v1",
    ],
    "orchestrator/intake": ["common/base", "common/hub", "orchestrator/cycle", "orchestrator/schedule", "protos/bastion/v1"],
    "orchestrator/observe": [
        "common/base",
        "common/telemetry",
        "orchestrator/cost",
        "orchestrator/cycle",
        "orchestrator/schedule",
    ],
    "orchestrator/api": [
        "common/base",
        "common/host",
        "common/hub",
        "common/inspection",
        "common/telemetry",
        "common/wire",
        "orchestrator/cost",
        "orchestrator/intake",
        "orchestrator/schedule",
        "protos/bastion/v1",
    ],
    "orchestrator/console": [
        "common/base",
        "common/http",
        "common/hub",
        "orchestrator/api",
        "orchestrator/cost",
        "orchestrator/cycle",
        "orchestrator/intake",
        "orchestrator/observe",
        "orchestrator/schedule",
        "protos/bastion/v1",
    ],
    "orchestrator/openai": [
        "common/base",
        "common/http",
        "common/hub",
        "common/telemetry",
        "orchestrator/api",
        "orchestrator/intake",
        "orchestrator/schedule",
        "orchestrator/text",
        "protos/bastion/v1",
    ],
    "orchestrator/program": [
        "common/base",
        "common/host",
        "common/prior",
        "common/telemetry",
        "common/wire",
        "orchestrator/api",
        "orchestrator/console",
        "orchestrator/cycle",
        "orchestrator/observe",
        "orchestrator/openai",
        "orchestrator/policy",
        "orchestrator/remote",
        "orchestrator/schedule",
    ],
    # Clients speak the API only. The SDK, client/cpp, is also built without the rest of this project.
    "client/cpp": ["protos/bastion/v1"],
    "client/flags": ["common/stages", "protos/bastion/v1"],
    "client/ctl": ["client/cpp", "client/flags", "common/base", "protos/bastion/v1"],
    # Tools run the engines in process.
    "tools/inprocess": [
        *_DATA,
        "common/shm",
        "engine/program",
        "common/prior",
        "drafter_service/engine",
        "drafter_service/replay",
        "orchestrator/prior",
        "verifier_service/engine",
    ],
    "tools/sampling": [*_DATA],
    "tools/bench": [
        *_DATA,
        "client/cpp",
        "client/flags",
        "common/hub",
        "engine/program",
        "drafter_service/replay",
        "kernels/ops",
        "orchestrator/belief",
        "orchestrator/cost",
        "orchestrator/cycle",
        "orchestrator/policy",
        "orchestrator/prior",
        "orchestrator/profile",
        "orchestrator/tree",
        "tools/inprocess",
        "tools/sampling",
    ],
    "tools/exactness": [
        *_DATA,
        "client/cpp",
        "client/flags",
        "common/hub",
        "engine/program",
        "orchestrator/policy",
        "orchestrator/profile",
        "orchestrator/tree",
        "tools/bench",
        "tools/inprocess",
        "tools/sampling",
    ],
    "tools/doctor": [
        "client/cpp",
        "client/ctl",
        "common/base",
        "common/hub",
        "engine/model",
        "engine/program",
        "common/prior",
        "drafter_service/engine",
        "kernels/ops",
        "orchestrator/intake",
        "protos/bastion/v1",
    ],
    "tools/train": [
        "common/base",
        "common/hub",
        "engine/program",
        "kernels/torch",
        "tools/bench",
        "tools/train/loop",
        "tools/train/models",
        "tools/train/prior",
        "tools/train/teach",
    ],
    "tools/train/prior": ["common/base", "common/hub", "common/prior"],
    "tools/train/teach": [
        *_DATA,
        "common/hub",
        "engine/program",
        "kernels/ops",
        "tools/bench",
        "verifier_service/engine",
    ],
    "tools/train/models": ["common/base", "common/hub", "engine/model", "kernels/ops", "kernels/torch"],
    "tools/train/loop": [
        "common/base",
        "common/hub",
        "engine/program",
        "kernels/ops",
        "kernels/torch",
        "orchestrator/profile",
        "tools/bench",
        "tools/inprocess",
        "tools/train/models",
        "tools/train/teach",
        "verifier_service/engine",
    ],
}

# Include paths that do not begin at the root of the tree, and the folder where they begin. The longest
# prefix wins.
INCLUDE_ROOTS = {"bastion/": "client/cpp/", "bastion/internal/": "protos/", "bastion/v1/": "protos/"}

# Tests may include every folder. No folder above may include a test.
TESTS = "tests"

# Libraries that only some folders may include. Every folder may include all other libraries.
LIBRARIES = {
    "torch": (("ATen/", "torch/", "c10/"), ["kernels/torch"]),
    "protobuf and gRPC": (
        ("grpcpp/", "grpc/", "google/protobuf/"),
        ["common/host", "common/inspection", "common/wire", "orchestrator/intake", "orchestrator/schedule", "client", "tests"],
    ),
    "Boost": (("boost/",), ["common/http", "tests/common/http"]),
    "prometheus-cpp": (("prometheus/",), ["common/telemetry", "tests"]),
    "OpenTelemetry": (("opentelemetry/",), ["common/telemetry/otlp_sink.cc"]),
    "the Rust FFI": (("common/hub/ffi.h", "common/hub/rust_boundary.h"), ["common/hub"]),
}
TORCH = LIBRARIES["torch"][0]
GENERATED = ".pb.h"

# The CMake targets of generated and third-party headers, by prefix. The longest prefix wins.
HEADER_TARGETS = {
    "protos/bastion/internal/": "protos_internal",
    "protos/bastion/v1/": "protos_public",
    "grpc/health/": "protos_health",
    "boost/": "Boost::headers",
    "prometheus/": "prometheus-cpp::core",
    "absl/flags/reflection.h": "absl::flags_reflection",
    "absl/flags/parse.h": "absl::flags_parse",
    "absl/base/": "absl::core_headers",
    "absl/cleanup/": "absl::cleanup",
    "absl/container/flat_hash_map.h": "absl::flat_hash_map",
    "absl/container/flat_hash_set.h": "absl::flat_hash_set",
    "absl/container/node_hash_map.h": "absl::node_hash_map",
    "absl/flags/": "absl::flags",
    "absl/functional/function_ref.h": "absl::function_ref",
    "absl/random/": "absl::random_random",
    "absl/status/status.h": "absl::status",
    "absl/status/statusor.h": "absl::statusor",
    "absl/strings/": "absl::strings",
    "absl/strings/str_format.h": "absl::str_format",
    "absl/synchronization/": "absl::synchronization",
    "absl/time/": "absl::time",
    "absl/types/span.h": "absl::span",
}

# Files that may use preprocessor conditionals: Highway compiles the CPU kernels once per instruction set, and the other
# files depend on the processor or the compiler.
CONDITIONALS_ALLOWED = [
    "kernels/cpu/",
    "kernels/ops/thread_pool.cc",
    "kernels/cuda/simt/simt.h",
    "kernels/cuda/simt/warpgroup.h",
    "kernels/cuda/simt/warpgroup_nvcc.h",
]
NDEBUG_ALLOWED = ["common/base/check.h", "tests/"]

# Only these files may read flags and the environment. They pass the values on as plain structs.
SETTINGS_ALLOWED = ["main.cc", "flags.cc", "device_flags.cc", "environment.cc"]

MAX_FILE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 5
MAX_CONFIG_FIELDS = 12
CONFIG_NAMES = ("Config", "Options", "Settings", "Params", "Flags")

README_WORDS = 900  # Must be fewer.
README_LINES = 150
MAX_PAGE_LINES = 200  # Lines of a page in docs/.
REQUIRED_FILES = ["LICENSE", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", ".editorconfig", ".pre-commit-config.yaml"]

SKIPPED_FOLDERS = {"build", ".git", "__pycache__", "target"}
CODE_SUFFIXES = (".h", ".cc", ".cu", ".cuh", ".py", ".rs", ".sh", ".proto", ".cmake")
