# Streams an answer: stream.py [ADDRESS]
import sys

from bastion_client import DEFAULT_ADDRESS, Client, StopConditions

with Client(sys.argv[1] if len(sys.argv) > 1 else DEFAULT_ADDRESS) as client:
    answer = client.generate("def fibonacci(n):", stop=StopConditions(max_tokens=64))
    for delta in answer:
        print(delta.text, end="", flush=True)
    print("\n", answer.finished and answer.finished.usage, file=sys.stderr)
