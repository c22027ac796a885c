"""Streams two answers side by side, for at most half a second: time_limit.py [ADDRESS]

A task that is canceled cancels its call, so the server stops, too.
"""

import asyncio
import sys

from bastion_client import DEFAULT_ADDRESS, AsyncClient, StopConditions


async def stream(client, prompt):
    async for delta in client.generate(prompt, stop=StopConditions(ignore_eos=True)):
        print(delta.text, end="", flush=True)


async def main():
    address = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_ADDRESS
    async with AsyncClient(address) as client:
        both = asyncio.gather(stream(client, "def f("), stream(client, "class A:"))
        try:
            await asyncio.wait_for(both, timeout=0.5)
        except asyncio.TimeoutError:
            print("\nThe time is over.", file=sys.stderr)


asyncio.run(main())
