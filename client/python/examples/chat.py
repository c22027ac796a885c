"""Chats, with a message per line of standard input: chat.py [ADDRESS]

The model needs a chat template.
"""

import sys

from bastion_client import DEFAULT_ADDRESS, ChatMessage, ChatMessages, Client, StopConditions

address = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_ADDRESS
conversation = []
with Client(address) as client:
    for line in sys.stdin:
        conversation.append(ChatMessage("user", line.strip()))
        answer = client.generate(ChatMessages(conversation), stop=StopConditions(max_tokens=64))
        for delta in answer:
            print(delta.text, end="", flush=True)
        print()
        conversation.append(ChatMessage("assistant", answer.text()))
