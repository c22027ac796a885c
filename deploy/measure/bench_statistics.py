"""Statistics of bastion-bench's reports: quantiles, correlations, and the spread of a ratio of rates over prompts.

Sums are added from left to right. The built-in sum() compensates rounding errors from Python 3.12 on, so that the last digit
of a figure would depend on the version of Python.
"""

import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

Pairs = Sequence[tuple[float, float]]


def total(values: Iterable[float]) -> float:
    result = 0.0
    for value in values:
        result += value
    return result


def ratio(part: float, whole: float) -> float:
    """part / whole, or 0 if `whole` is not positive."""
    return part / whole if whole > 0 else 0.0


def quantile(values: Iterable[float], share: float) -> float:
    """The smallest value that at least a share of the values does not exceed (nearest rank). Needs a value; 0 < share <= 1."""
    ranked = sorted(values)
    return ranked[max(0, math.ceil(share * len(ranked)) - 1)]


def lower_median(values: Iterable[float]) -> float:
    """The lower of the two middle values if the count is even. Needs a value."""
    ranked = sorted(values)
    return ranked[(len(ranked) - 1) // 2]


def jains_index(rates: Sequence[float]) -> float:
    """(Σx)² / (n·Σx²): 1/n to 1. 0 without rates."""
    sum_of_rates, squares = total(rates), total(rate * rate for rate in rates)
    return sum_of_rates * sum_of_rates / (len(rates) * squares) if squares > 0 else 0.0


# ---- correlations ----


def pearson(pairs: Pairs) -> float:
    """Pearson's coefficient. 0 if either side is constant, or with fewer than two pairs."""
    if len(pairs) < 2:
        return 0.0
    mean_x = total(x / len(pairs) for x, _ in pairs)
    mean_y = total(y / len(pairs) for _, y in pairs)
    xx = total((x - mean_x) * (x - mean_x) for x, _ in pairs)
    yy = total((y - mean_y) * (y - mean_y) for _, y in pairs)
    xy = total((x - mean_x) * (y - mean_y) for x, y in pairs)
    return xy / math.sqrt(xx * yy) if xx > 0 and yy > 0 else 0.0


def spearman(pairs: Pairs) -> float:
    """Spearman's coefficient: Pearson's of the ranks. Equal values share their mean rank."""
    return pearson(list(zip(_ranks([x for x, _ in pairs]), _ranks([y for _, y in pairs]))))


def _ranks(values: list[float]) -> list[float]:
    """The rank of each value, from 0."""
    ranks = [0.0] * len(values)
    begin = 0
    for _, group in itertools.groupby(sorted(range(len(values)), key=values.__getitem__), key=values.__getitem__):
        members = list(group)
        for member in members:
            ranks[member] = (2 * begin + len(members) - 1) / 2
        begin += len(members)
    return ranks


# ---- the spread of a ratio of rates ----


@dataclass(frozen=True)
class PairedWork:
    """The work of two arms on the same prompt: the arm, and the baseline."""

    tokens: int
    seconds: float
    base_tokens: int
    base_seconds: float


def rate_ratio(prompts: Sequence[PairedWork]) -> float:
    """(Σ tokens / Σ seconds) / (Σ base_tokens / Σ base_seconds). 0 if a sum that divides is 0."""
    tokens = base_tokens = 0
    seconds = base_seconds = 0.0
    for prompt in prompts:
        tokens += prompt.tokens
        seconds += prompt.seconds
        base_tokens += prompt.base_tokens
        base_seconds += prompt.base_seconds
    return ratio(tokens * base_seconds, seconds * base_tokens)


def bootstrap_ratio(prompts: Sequence[PairedWork], draws: int = 1000, seed: int = 1) -> tuple[float, float] | None:
    """The 95 % interval of rate_ratio by the percentile bootstrap: prompts are drawn with replacement, each with both arms.

    The same input gives the same interval. None with fewer than two prompts.
    """
    if len(prompts) < 2:
        return None
    numbers = iter(_random_numbers(seed, draws * len(prompts)))
    ratios = sorted(
        rate_ratio([prompts[number % len(prompts)] for number in itertools.islice(numbers, len(prompts))]) for _ in range(draws)
    )
    low, high = (ratios[int(share * (len(ratios) - 1) + 0.5)] for share in (0.025, 0.975))
    return low, high


def mersenne_twister(seed: int) -> Iterator[int]:
    """The 64-bit Mersenne Twister, as std::mt19937_64 of C++. Python's own generator has 32 bits."""
    size, middle, mask = 312, 156, (1 << 64) - 1
    state = [seed & mask]
    for index in range(1, size):
        state.append((6364136223846793005 * (state[-1] ^ (state[-1] >> 62)) + index) & mask)
    while True:
        for index in range(size):
            mixed = (state[index] & 0xFFFFFFFF80000000) | (state[(index + 1) % size] & 0x7FFFFFFF)
            odd = 0xB5026F5AA96619E9 if mixed & 1 else 0
            state[index] = state[(index + middle) % size] ^ (mixed >> 1) ^ odd
        for number in state:
            number ^= (number >> 29) & 0x5555555555555555
            number ^= (number << 17) & 0x71D67FFFEDA60000
            number ^= (number << 37) & 0xFFF7EEE000000000
            yield number ^ (number >> 43)


@functools.cache
def _random_numbers(seed: int, count: int) -> tuple[int, ...]:
    """The first numbers of the generator. Kept, because all cells of a suite draw from the same ones."""
    return tuple(itertools.islice(mersenne_twister(seed), count))
