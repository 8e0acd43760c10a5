"""Reads the JSON of a request strictly: no repeated keys, no NaN, exact numbers."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import dataclass
from typing import Any

from flows.desk.service.gate import Refused

LONGEST_QUESTION = 4000
LONGEST_EPSILON = 60
KEYS = ("question", "epsilon")
SCHEMA: dict[str, Any] = {
    "type": "object",
    "required": list(KEYS),
    "additionalProperties": False,
    "properties": {
        "question": {
            "type": "string",
            "minLength": 1,
            "maxLength": LONGEST_QUESTION,
            "description": "A table or a regression, such as `mean of income by sex` or"
            " `income ~ age + sex`.",
        },
        "epsilon": {
            "type": ["string", "number"],
            "description": 'Epsilon of the answer, above 0, such as "0.1" or "1/10".',
        },
    },
}


class _Number(str):
    """The digits of a JSON number, so that 0.1 stays exactly 0.1."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and its epsilon as they were sent.

    Attributes:
        question: The question, without leading and trailing space.
        epsilon: Epsilon of the answer, as text.
    """

    question: str
    epsilon: str


def read_asked(body: bytes) -> Asked:
    """Return the question in a request's body.

    Raises:
        Refused: with 400 if the body is not JSON, with 422 if it is not a question.
    """
    try:
        found = json.loads(
            body.decode("utf-8"),
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_refuse_constant,
            object_pairs_hook=_without_doubles,
        )
    except (ValueError, RecursionError):
        raise Refused(
            400,
            "The body is not valid JSON in UTF-8; send, for example,"
            ' {"question": "mean of income by sex", "epsilon": "0.1"}.',
        ) from None
    if not isinstance(found, dict) or set(found) != set(KEYS):
        raise Refused(422, "The body must be an object with exactly the keys question and epsilon.")
    question, epsilon = found["question"], found["epsilon"]
    if not isinstance(question, str) or isinstance(question, _Number):
        raise Refused(422, "`question` must be a string.")
    question = question.strip()
    if not 0 < len(question) <= LONGEST_QUESTION or not _is_plain(question):
        raise Refused(
            422,
            f"`question` must have 1 to {LONGEST_QUESTION} characters, without control characters.",
        )
    if not isinstance(epsilon, str) or not 0 < len(epsilon) <= LONGEST_EPSILON:
        raise Refused(422, '`epsilon` must be a number, such as 0.1, or a string, such as "1/10".')
    return Asked(question, str(epsilon).strip())


def _is_plain(text: str) -> bool:
    """Return whether a text has no control characters and no lone surrogates."""
    return not any(unicodedata.category(each) in ("Cc", "Cs") for each in text)


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found
