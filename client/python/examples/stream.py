"""Streams an answer: stream.py [ADDRESS]"""

import sys

from bastion_client import Client, StopConditions

with Client(*sys.argv[1:]) as client:
    answer = client.generate("def fibonacci(n):", stop=StopConditions(max_tokens=64))
    for delta in answer:
        print(delta.text, end="", flush=True)
    print("\n", answer.finished.usage, file=sys.stderr)
