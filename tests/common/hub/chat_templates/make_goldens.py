"""Writes goldens.json: what `transformers` renders for every template and conversation of this folder.

    pip install transformers==5.23.0 jinja2==3.1.6
    python3 make_goldens.py

An entry is the text, or null if the template fails. The time of strftime_now is fixed, in UTC.
"""

import datetime
import json
import pathlib

from transformers.utils import chat_template_utils

FOLDER = pathlib.Path(__file__).parent


class FixedTime(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls(2026, 3, 5, 7, 8, 9, 123)


def render(template, conversation, data):
    arguments = {**data["special_tokens"], **data["arguments"], **conversation.get("arguments", {})}
    try:
        texts, _ = chat_template_utils.render_jinja_template(
            [conversation["messages"]],
            chat_template=template,
            tools=data["tools"] if conversation.get("tools") else None,
            add_generation_prompt=conversation.get("add_generation_prompt", True),
            **arguments,
        )
    except Exception:  # Templates raise errors of many types.
        return None
    return texts[0]


def main():
    chat_template_utils.datetime = FixedTime
    data = json.loads((FOLDER / "conversations.json").read_text())
    goldens = {}
    for path in sorted(FOLDER.glob("*.jinja")):
        template = path.read_text()
        goldens[path.stem] = {
            name: render(template, conversation, data) for name, conversation in data["conversations"].items()
        }
    (FOLDER / "goldens.json").write_text(json.dumps(goldens, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
