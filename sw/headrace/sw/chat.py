"""Conversations with a model: its chat template, and a cache that is kept between turns."""

import datetime
import json
from collections.abc import Iterator
from typing import Any, NoReturn

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .checkpoint import Tokenizer
from .driver import Session
from .errors import HeadraceError
from .sampling import Sampler


__all__ = ["ChatTemplate", "Conversation"]


# Characters of a conversation; a template that writes more is no template of a chat.
_MOST_TEXT = 1 << 22


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(value: Any, indent: int | None = None) -> str:
    # Jinja's own filter escapes what HTML does not allow.
    return json.dumps(value, ensure_ascii=False, indent=indent)


class ChatTemplate:
    """Text of a conversation as the model was trained on it.

    The template comes with the model, so it runs in Jinja's sandbox, which lets it reach nothing
    but the messages.

    Parameters
    ----------
    source : str
        Template in the Jinja language, as Hugging Face's tokenizers have it.
    bos, eos : str
        Text of the tokens that begin and end a text.

    Raises
    ------
    HeadraceError
        If it is no template.
    """

    def __init__(self, source: str, *, bos: str = "", eos: str = ""):
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
        environment.filters["tojson"] = _to_json
        environment.globals |= {
            "raise_exception": _raise, "bos_token": bos, "eos_token": eos,
            "strftime_now": lambda form: datetime.datetime.now().strftime(form)}
        try:
            self._template = environment.from_string(source)
        except (jinja2.TemplateError, RecursionError) as error:
            raise HeadraceError(f"the model's chat template is not one of Jinja: {error}"
                                ) from error

    def text(self, messages: list[dict[str, str]]) -> str:
        """Text of a conversation up to where the model's answer begins.

        Parameters
        ----------
        messages : list of dict
            With `role` (``system``, ``user``, ``assistant``) and `content`.

        Raises
        ------
        HeadraceError
            If the template refuses the messages, or fails.
        """
        pieces, length = [], 0
        try:
            for piece in self._template.generate(messages=messages, add_generation_prompt=True):
                pieces.append(piece)
                length += len(piece)
                if length > _MOST_TEXT:
                    raise HeadraceError(f"the model's chat template wrote more than "
                                        f"{_MOST_TEXT:,} characters: it is damaged")
        except HeadraceError:
            raise
        # Whatever a template does: a division by zero, a call of what is not there.
        except Exception as error:
            raise HeadraceError(f"the model's chat template fails for a conversation of "
                                f"{len(messages)} messages "
                                f"({', '.join(each['role'] for each in messages)}): "
                                f"{type(error).__name__}: {error}") from error
        return "".join(pieces)


class Conversation:
    """Turns of a user and a model.

    What the cache holds is kept: only tokens that it does not have are prefilled. As long as the
    template only adds to its text, earlier answers stay the tokens that the model produced;
    otherwise the whole text is encoded again, and what both have in common at the beginning is
    kept.

    Parameters
    ----------
    session : Session
        Of the model, with an empty cache.
    tokenizer : Tokenizer
        Of the model.
    template : ChatTemplate
        Of the model.
    system : str, optional
        Message that comes first.

    Attributes
    ----------
    messages : list of dict
        What was said.
    prefilled : int
        Tokens that the last turn prefilled.
    """

    def __init__(self, session: Session, tokenizer: Tokenizer, template: ChatTemplate,
                 system: str | None = None):
        self.session, self.tokenizer, self.template = session, tokenizer, template
        self._system = [] if system is None else [{"role": "system", "content": system}]
        self.clear()

    def clear(self) -> None:
        """Begin a new conversation."""
        self.session.restart()
        self.messages = list(self._system)
        self.prefilled = 0
        self._ids: list[int] = []       # of `_text`; the cache holds a beginning of them
        self._text = ""
        self._asked = 0

    def ask(self, content: str, tokens: int, sampler: Sampler) -> Iterator[int]:
        """Ask, and generate an answer of up to `tokens` tokens.

        The answer counts when :meth:`answered` is called.

        Raises
        ------
        HeadraceError
            If the template fails, or the conversation exceeds the context; then the question is
            forgotten.
        """
        asked = [*self.messages, {"role": "user", "content": content}]
        text = self.template.text(asked)
        if self._text and text.startswith(self._text):
            ids = self._ids + self.tokenizer.encode_plain(text[len(self._text):])
        else:
            ids = self.tokenizer.encode_plain(text)
        kept = 0
        # At least one token is prefilled, as its logits are wanted.
        for old, new in zip(self._ids[:self.session.position], ids[:-1]):
            if old != new:
                break
            kept += 1
        before = self.session.position
        self.session.rewind(kept)
        room = self.session.image.context - len(ids)
        if room < 1:
            self.session.position = before
            raise HeadraceError(f"the conversation would have {len(ids)} tokens, but the context "
                                f"has {self.session.image.context}: begin a new one (/clear), or "
                                f"allow more (--context)")
        sampler.forget()
        sampler.saw(ids[:kept])
        generated = self.session.generate(ids[kept:], min(tokens, room), sampler)
        self.messages, self.prefilled = asked, len(ids) - kept
        self._text, self._ids, self._asked = text, ids, len(ids)
        return self._answer(generated)

    def _answer(self, generated: Iterator[int]) -> Iterator[int]:
        eos = self.session.image.shape.eos
        for token in generated:
            # The template writes what ends an answer.
            if token in eos:
                return
            self._ids = [*self._ids, token]
            yield token

    def answered(self, text: str) -> None:
        """Take an answer, as it was shown, into the conversation."""
        self.messages = [*self.messages, {"role": "assistant", "content": text}]
        whole = self.tokenizer.decode(self._ids[self._asked:])
        # Cut at a stop string, the tokens say more than the text: it is encoded again.
        self._text = self._text + text if text == whole else ""
        # Passes may have gone beyond the end of the answer.
        self.session.rewind(min(self.session.position, len(self._ids)))
