"""The attempts of one call: its time limit, and the pauses between them."""

import random
import time
from typing import Optional

from bastion_client.errors import BastionError, ResourceExhausted, Unavailable
from bastion_client.options import RetryPolicy


class Attempts:
    """Not thread-safe. The time of the call runs from the construction."""

    def __init__(self, policy: RetryPolicy, timeout: Optional[float]) -> None:
        """`timeout` is in seconds. None: no limit."""
        self._policy = policy
        self._end = None if timeout is None else time.monotonic() + timeout
        self._failed = 0

    def time_left(self) -> Optional[float]:
        """Seconds for the next attempt. None: no limit."""
        return None if self._end is None else max(self._end - time.monotonic(), 0.0)

    def pause_after(self, failure: BastionError) -> float:
        """Seconds to wait before the next attempt. Raises `failure` if there is none."""
        policy = self._policy
        self._failed += 1
        is_temporary = isinstance(failure, Unavailable) or (
            isinstance(failure, ResourceExhausted) and failure.retry_after is not None
        )
        if not is_temporary or self._failed >= policy.max_attempts:
            raise failure
        backoff = min(policy.initial_backoff * policy.multiplier ** (self._failed - 1), policy.max_backoff)
        pause = (failure.retry_after or 0.0) + backoff * random.uniform(0.5, 1)
        left = self.time_left()
        if left is not None and pause >= left:
            raise failure
        return pause
