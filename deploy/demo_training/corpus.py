"""The training text: Python's standard library, its tests and its documentation, as Debian 12 ships them.

License of the text: PSF License Agreement (the documentation's examples also under Zero Clause BSD).

Each file belongs to one split, chosen by a hash of its path, so the splits are the same on every machine: `train`
(about 95 %), `validation` (perplexity only) and `heldout` (prompts only). Exact duplicates and files that are mostly
data (encodings, long literals, generated tables) are dropped.
"""

import hashlib
import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from demo_training.stage import parse, parser

# (root, glob, kind) of every source. PACKAGES names the Debian packages that install them.
SOURCES = [
    (Path("/usr/lib/python3.11"), "**/*.py", "python"),
    (Path("/usr/share/doc/python3.11/html/_sources"), "**/*.rst.txt", "docs"),
]
PACKAGES = ["libpython3.11-stdlib", "libpython3.11-testsuite", "python3.11-doc"]
DROPPED_FOLDERS = ("encodings/", "pydoc_data/", "site-packages/", "dist-packages/", "lib2to3/tests/data/")
MIN_BYTES, MAX_BYTES = 200, 300_000
MAX_DATA_SHARE = 0.25
VALIDATION_PERCENT, HELDOUT_PERCENT = 2, 3

_DATA = re.compile(r"\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|0x[0-9a-fA-F]+|\b\d+\b|[A-Za-z0-9+/]{60,}")


@dataclass(frozen=True)
class Document:
    """One file. `path` is absolute, as installed; `split` is train, validation or heldout."""

    path: str
    kind: str
    split: str
    text: str


def split_of(path: str) -> str:
    """The split of a file, from the SHA-256 of its path modulo 100."""
    bucket = int(hashlib.sha256(path.encode()).hexdigest(), 16) % 100
    if bucket < VALIDATION_PERCENT:
        return "validation"
    if bucket < VALIDATION_PERCENT + HELDOUT_PERCENT:
        return "heldout"
    return "train"


def is_mostly_data(text: str) -> bool:
    """True for tables and literals: many characters in numbers, escapes and base64, or a very long line."""
    data = sum(len(match) for match in _DATA.findall(text))
    longest_line = max((len(line) for line in text.splitlines()), default=0)
    return data > MAX_DATA_SHARE * len(text) or longest_line > 2000


def collect() -> list[Document]:
    """All documents, sorted by path, without duplicates (equal text up to white space)."""
    documents, seen = [], set()
    for root, pattern, kind in SOURCES:
        files = sorted(p for p in root.resolve().glob(pattern) if p.is_file())
        if not files:
            raise SystemExit(f"corpus: nothing under {root}; install the Debian packages {' '.join(PACKAGES)}")
        for file in tqdm(files, desc=f"corpus {kind}", unit="file"):
            relative = str(file.relative_to(root.resolve()))
            size = file.stat().st_size
            if relative.startswith(DROPPED_FOLDERS) or not MIN_BYTES <= size <= MAX_BYTES:
                continue
            try:
                text = file.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue
            digest = hashlib.sha256(" ".join(text.split()).encode()).digest()
            if digest in seen or is_mostly_data(text):
                continue
            seen.add(digest)
            path = str(root / relative)
            documents.append(Document(path, kind, split_of(path), text))
    return documents


def summary(documents: list[Document]) -> dict:
    """The content of split.json: the rule, the sizes, and the files kept out of training."""
    splits = {}
    for split in ("train", "validation", "heldout"):
        part = [d for d in documents if d.split == split]
        digest = hashlib.sha256()
        for document in part:
            digest.update(document.text.encode())
        splits[split] = {"files": len(part), "bytes": sum(len(d.text.encode()) for d in part), "sha256": digest.hexdigest()}
        if split != "train":
            splits[split]["paths"] = [d.path for d in part]
    rule = f"sha256(path) mod 100: below {VALIDATION_PERCENT} validation, the next {HELDOUT_PERCENT} heldout, the rest train"
    return {"packages": PACKAGES, "license": "PSF-2.0", "rule": rule, "splits": splits}


def load(work: Path, split: str) -> list[Document]:
    """The documents of one split, as written by main()."""
    with open(work / "corpus" / f"{split}.jsonl", encoding="utf-8") as lines:
        return [Document(**json.loads(line)) for line in lines]


def main() -> None:
    args = parse(parser(__doc__))
    documents = collect()
    (args.work / "corpus").mkdir(parents=True, exist_ok=True)
    for split in ("train", "validation", "heldout"):
        with open(args.work / "corpus" / f"{split}.jsonl", "w", encoding="utf-8") as out:
            for document in documents:
                if document.split == split:
                    out.write(json.dumps(asdict(document)) + "\n")
    record = summary(documents)
    # The pair that shares the text of another pair has the same split.
    folder = args.work if args.pair.tokenizer else args.out
    (folder / "split.json").write_text(json.dumps(record, indent=1) + "\n")
    print({name: (s["files"], s["bytes"]) for name, s in record["splits"].items()})


if __name__ == "__main__":
    main()
