"""The words of a question from left to right: names, levels, signs and marks."""

from __future__ import annotations

import re
from collections.abc import Container
from dataclasses import dataclass

from dp_core.errors import BadInput, similar
from dp_core.inference.questions.question import fold_text

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"[^"]*"|“[^”]*”|'[^']*'|`[^`]*`)"""
    r"""|(?P<sign><=|>=|!=|<>|==|=|<|>|≤|≥|≠)|(?P<mark>[(),])|(?P<word>[^\s(),<>=!≤≥≠"“”`]+))"""
)
_SIGNS = {"==": "=", "<>": "!=", "≠": "!=", "≤": "<=", "≥": ">="}
_WORD_SIGNS = (
    ("at least", ">="),
    ("at most", "<="),
    ("less than", "<"),
    ("more than", ">"),
    ("greater than", ">"),
    ("below", "<"),
    ("under", "<"),
    ("above", ">"),
    ("over", ">"),
)
BY, WHERE = ("by", "per"), ("where", "for", "among", "given", "if", "with")
END = (*BY, *WHERE, "and", "to", "between", "or", "&")


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text (`quoted`, a comparison `sign`, a `mark` or a `word`), and its place."""

    kind: str
    text: str
    start: int
    end: int


class TokenReader:
    """Reads a text token by token. To *pass* a token is to go on to the next one.

    Attributes:
        text: The question, without a final question mark or full stop.
        tokens: Its tokens.
        place: Number of tokens that were read.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip().rstrip("?.")
        self.tokens = _tokens(self.text)
        self.place = 0

    def next_token(self) -> Token | None:
        """Return the token that comes next, None at the end."""
        return self.tokens[self.place] if self.place < len(self.tokens) else None

    @staticmethod
    def is_word(token: Token, *words: str) -> bool:
        """Return whether a token is one of some words, in any case."""
        return token.kind == "word" and token.text.casefold() in words

    def word(self, *words: str) -> bool:
        """Pass the next token if it is one of some words, and return whether it was."""
        token = self.next_token()
        found = token is not None and self.is_word(token, *words)
        self.place += found
        return found

    def mark(self, mark: str) -> bool:
        """Pass the next token if it is this comma or bracket, and return whether it was."""
        token = self.next_token()
        found = token is not None and token.kind == "mark" and token.text == mark
        self.place += found
        return found

    def sign(self) -> str | None:
        """Pass a sign of comparison or its words, and return the sign; None if none comes next."""
        token = self.next_token()
        if token is None:
            return None
        if token.kind == "sign":
            self.place += 1
            return _SIGNS.get(token.text, token.text)
        for words, sign in _WORD_SIGNS:
            start = self.place
            if all(self.word(word) for word in words.split()):
                return sign
            self.place = start
        return None

    def at_end(self) -> bool:
        """Return whether a measure ends here."""
        token = self.next_token()
        return token is None or self.is_word(token, *BY, *WHERE, "between")

    def longest(self, known: Container[str]) -> str | None:
        """Pass the longest known text that comes next, and return it; None if there is none."""
        token = self.next_token()
        if token is None:
            return None
        if token.kind == "quoted":
            text = fold_text(token.text[1:-1])
            if text not in known:
                return None
            self.place += 1
            return text
        for stop in range(min(len(self.tokens), self.place + 40), self.place, -1):
            text = fold_text(self.text[token.start : self.tokens[stop - 1].end])
            if text in known:
                self.place = stop
                return text
        return None

    def run(self) -> str:
        """Pass everything up to the next clause, sign or mark, and return it as text."""
        first = self.tokens[self.place]
        self.place += 1
        if first.kind == "quoted":
            return first.text[1:-1]
        last = first
        while (token := self.next_token()) is not None and token.kind == "word":
            if self.is_word(token, *END, "is", "in", "not"):
                break
            last = token
            self.place += 1
        return self.text[first.start : last.end]

    def unexpected(self, wanted: str) -> BadInput:
        """Return the error that something other than `wanted` comes next."""
        token = self.next_token()
        before = self.text[: token.start if token else len(self.text)].rstrip()
        shown = f"{token.text!r}" if token else "the end"
        near = ""
        if token is not None and token.kind == "word":
            others = {*BY, *WHERE, "between", "and"} - {token.text.casefold()}
            near = similar(token.text, others)
        return BadInput(f"After {before!r} comes {shown} instead of {wanted}.{near}")


def _tokens(text: str) -> list[Token]:
    found, place = [], 0
    while text[place:].strip():
        match = _TOKEN.match(text, place)
        if match is None:
            rest = text[place:].strip()
            what = "A quote is not closed" if rest[0] in "\"“”'`" else f"{rest[0]!r} is not known"
            raise BadInput(f"{what} in the question at {rest[:20]!r}.")
        kind = str(match.lastgroup)
        found.append(Token(kind, match[kind], match.start(kind), match.end(kind)))
        place = match.end()
    return found
