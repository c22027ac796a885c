"""The figures of a suite: what each policy did in each cell of the suite's grid. Reads the runs of measurements.json.

A row of figures is a dictionary, which results.json keeps, so that reports of several machines can be merged.
"""

from collections import Counter, defaultdict

from bench_statistics import PairedWork, bootstrap_ratio, pearson, rate_ratio, ratio, spearman, total
from comparison_report import STAGES, lengths
from load_figures import throughput

SAMPLE_SIZE = 2000  # Cycles of a policy that the plot of lengths shows.


def suite_figures(measurements: dict) -> list[dict]:
    """The figures of all cells, in the order of the runs.

    First those of all prompts, then, at concurrency 1 and with several datasets, those of each dataset.
    """
    datasets = measurements["datasets"]
    names = sorted(set(datasets.values()))
    rows = []
    for cell in _cells(measurements["runs"]):
        with_datasets = cell.concurrency == 1 and len(names) > 1
        for dataset in ["", *(names if with_datasets else [])]:
            rows += [cell.figures(policy, dataset, datasets) for policy in cell.rounds]
    return rows


def _cells(runs: list[dict]) -> list["_Cell"]:
    cells: dict[tuple, _Cell] = {}
    for run in runs:
        for level in run["levels"]:
            key = run["temperature"], level["concurrency"], run["prompt_tokens"], run["max_new_tokens"]
            cells.setdefault(key, _Cell(*key)).add(run, level)
    return list(cells.values())


class _Cell:
    """All runs of one temperature and one length of prompts and of answers at one concurrency, over all seeds and rounds."""

    def __init__(self, temperature: float, concurrency: int, prompt_tokens: int, max_new_tokens: int):
        self.temperature, self.concurrency = temperature, concurrency
        self.prompt_tokens, self.max_new_tokens = prompt_tokens, max_new_tokens
        self.rounds: dict[str, list[dict]] = {}  # By policy.
        self._peak_memory: dict[str, int] = defaultdict(int)  # Bytes, by policy.
        self._throughput: dict[str, float] = {}

    def add(self, run: dict, level: dict) -> None:
        for arm in level["arms"]:
            self.rounds.setdefault(arm["policy"], []).extend(arm["rounds"])
        for policy, peak in run["peak_memory_bytes"].items():
            self._peak_memory[policy] = max(self._peak_memory[policy], peak)

    def figures(self, policy: str, dataset: str, datasets: dict[str, str]) -> dict:
        """`dataset`: empty for all prompts."""
        requests = self._requests(policy, dataset, datasets)
        tokens = sum(len(request["output_token_ids"]) for request in requests)
        return {
            "temperature": self.temperature,
            "concurrency": self.concurrency,
            "prompt_tokens": self.prompt_tokens,
            "max_new_tokens": self.max_new_tokens,
            "dataset": dataset,
            "policy": policy,
            "requests": len(requests),
            "stream_tokens_per_second": ratio(tokens, total(request["seconds"] for request in requests)),
            "system_tokens_per_second": 0.0 if dataset else self._system_rate(policy),
            **self._speedup(policy, requests, self._requests("ar", dataset, datasets) if "ar" in self.rounds else None),
            "seconds": _times(requests),
            "peak_memory_bytes": self._peak_memory[policy],
            **_cycle_figures(requests),
        }

    def _requests(self, policy: str, dataset: str, datasets: dict[str, str]) -> list[dict]:
        requests = [request for run in self.rounds[policy] for request in run["requests"]]
        return [request for request in requests if not dataset or datasets[request["id"]] == dataset]

    def _system_rate(self, policy: str) -> float:
        if policy not in self._throughput:
            self._throughput[policy] = throughput(self.rounds[policy], {"concurrency": self.concurrency})
        return self._throughput[policy]

    def _speedup(self, policy: str, requests: list[dict], base: list[dict] | None) -> dict:
        """The rate relative to that of `ar`: of streams at concurrency 1, of the system above. 0 if `ar` did not run."""
        if base is None:
            return {"speedup": 0.0, "speedup_95": None}
        if self.concurrency > 1:
            return {"speedup": ratio(self._system_rate(policy), self._system_rate("ar")), "speedup_95": None}
        pairs = _paired(requests, base)
        return {"speedup": rate_ratio(pairs), "speedup_95": None if policy == "ar" else bootstrap_ratio(pairs)}


def _paired(requests: list[dict], base: list[dict]) -> list[PairedWork]:
    """The work on each prompt, in the order of their ids."""
    work: dict[str, list] = defaultdict(lambda: [0, 0.0, 0, 0.0])
    for at, arm in ((0, requests), (2, base)):
        for request in arm:
            work[request["id"]][at] += len(request["output_token_ids"])
            work[request["id"]][at + 1] += request["seconds"]
    return [PairedWork(*work[prompt]) for prompt in sorted(work, key=str.encode)]


def _times(requests: list[dict]) -> dict[str, float]:
    """Means in seconds: ttft and tpot per request, the stages per cycle.

    ttft: arrival to the first token. tpot: the later deltas, divided among their tokens.
    """
    waits, gaps = [], []
    for request in requests:
        if not request["deltas"]:
            continue
        (first, first_tokens), (last, _) = request["deltas"][0], request["deltas"][-1]
        waits.append(first - request["arrived"])
        later = len(request["output_token_ids"]) - first_tokens
        if later > 0:
            gaps.append((last - first) / later)
    share = 1 / max(1, sum(len(request["cycles"]["committed"]) for request in requests))
    stages = {stage: share * total(s for request in requests for s in request["cycles"][stage]) for stage in STAGES}
    return {"ttft": total(waits) / max(1, len(waits)), "tpot": total(gaps) / max(1, len(gaps)), **stages}


def _cycle_figures(requests: list[dict]) -> dict:
    """The figures that count cycles."""

    def column(name: str) -> list:
        return [value for request in requests for value in request["cycles"].get(name, [])]

    committed, nodes = column("committed"), column("nodes")
    return {
        "tau": ratio(sum(committed), len(committed)),
        "nodes": ratio(sum(nodes), len(nodes)),
        "acceptance_rate": ratio(sum(column("accepted")), sum(nodes)),
        "committed_lengths": [list(entry) for entry in sorted(Counter(committed).items())],
        "depths": _depths(column("offered"), column("accepted")),
        "expected_length": _correlation(lengths(requests)),
    }


def _depths(offered: list[list[int]], accepted: list[int]) -> list[dict]:
    """Entry d - 1: the cycles whose tree has a node at depth d, their nodes there, and those accepted, one per cycle.

    "reached" counts those cycles that accepted a node at depth d - 1, the root at 0.
    """
    depths: list[dict] = []
    for counts, reached in zip(offered, accepted):
        for depth, nodes in enumerate(counts):
            if depth == len(depths):
                depths.append({"cycles": 0, "offered": 0, "accepted": 0, "reached": 0})
            depths[depth]["cycles"] += 1
            depths[depth]["offered"] += nodes
            depths[depth]["accepted"] += reached > depth
            depths[depth]["reached"] += reached >= depth
    return depths


def _correlation(pairs: list[tuple[float, int]]) -> dict:
    """How the expected length of a tree relates to its accepted nodes (BASTION, figure 6), with a sample for the plot."""
    step = max(1, -(-len(pairs) // SAMPLE_SIZE))
    return {
        "pearson": pearson(pairs),
        "spearman": spearman(pairs),
        "cycles": len(pairs),
        "sample": [list(pair) for pair in pairs[::step]],
    }
