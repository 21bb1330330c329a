"""Conversations: templates, the cache between turns, the command."""

import dataclasses
import io
import os

import pytest
from gguf import GGMLQuantizationType as Type

from headrace.hw.config import PRESETS
from headrace.sw.chat import ChatTemplate, Conversation
from headrace.sw.checkpoint import SyntheticCheckpoint, load_checkpoint
from headrace.sw.cli import main
from headrace.sw.compiler import compile_model
from headrace.sw.driver import Session
from headrace.sw.errors import HeadraceError
from headrace.sw.golden_device import GoldenDevice
from headrace.sw.sampling import Sampler, Sampling

from .model_files import write_gguf
from .models import shape


#: What a message looks like: <user> begins those of the user, <end> ends each.
TEMPLATE = ("{{ bos_token if false }}{% for m in messages %}{{ '<user>' if m.role == 'user' }}"
            "{{ m['content'] }}<end>{% endfor %}")

#: One that only ever shows what came last.
FORGETFUL = "{{ '<user>' }}{{ messages[-1].content }}"

GREEDY = Sampler(Sampling())


@pytest.fixture
def chat_file(tmp_path):
    def write(template=TEMPLATE, drop=("tokenizer.ggml.eos_token_id",), **changes):
        change = {"tokenizer.chat_template": ("add_string", template)}
        return write_gguf(tmp_path / "m.gguf",
                          SyntheticCheckpoint(shape(dim=64, ffn=64, tied=False, **changes), seed=4),
                          Type.Q8_0, change=change, drop=drop)
    return write


@pytest.fixture
def talk(chat_file):
    """A conversation with a tiny model, whose answers never end by themselves."""
    opened = []

    def begin(template=TEMPLATE, passes=1, **changes):
        checkpoint = load_checkpoint(chat_file(template, **changes))
        image = compile_model(checkpoint, PRESETS["tiny"])
        device = GoldenDevice(image.config, memory_bytes=image.total_bytes)
        opened.append(device)
        return Conversation(Session(device, image, passes_per_run=passes), checkpoint.tokenizer,
                            ChatTemplate(template))

    yield begin
    for device in opened:
        device.close()


def _answer(conversation, question, tokens=4):
    ids = list(conversation.ask(question, tokens, GREEDY))
    text = conversation.tokenizer.decode(ids)
    conversation.answered(text)
    return ids, text


@pytest.mark.parametrize("passes", [1, 3])
def test_only_what_is_new_is_prefilled(talk, passes):
    conversation = talk(passes=passes)
    encode = conversation.tokenizer.encode_plain
    first, text = _answer(conversation, "the cat")
    assert conversation.prefilled == len(encode("<user>the cat<end>"))
    second, _ = _answer(conversation, "and a cat")
    # The last token of the first answer, which is not in the cache, its end, and the question.
    assert conversation.prefilled == len(encode("<end><user>and a cat<end>")) + 1
    assert [each["role"] for each in conversation.messages] == ["user", "assistant"] * 2

    other = talk()
    whole = encode("<user>the cat<end>") + first + encode("<end><user>and a cat<end>")
    assert second == list(other.session.generate(whole, 4))
    conversation.clear()
    assert conversation.session.position == 0 and not conversation.messages
    assert _answer(conversation, "the cat") == (first, text)


def test_template_that_rewrites_what_was_said(talk):
    conversation, fresh = talk(FORGETFUL), talk(FORGETFUL)
    _answer(conversation, "the cat in a")
    again, _ = _answer(conversation, "the cat and the")
    before, after = (conversation.tokenizer.encode_plain("<user>the cat " + end)
                     for end in ("in a", "and the"))
    common = len(os.path.commonprefix([before, after]))
    assert 4 < common < len(before) and conversation.prefilled == len(after) - common
    assert again == _answer(fresh, "the cat and the")[0]
    # The same text once more: its last token is prefilled for its logits.
    assert _answer(conversation, "the cat and the")[0] == again and conversation.prefilled == 1


def test_end_of_an_answer_is_what_the_template_writes(talk):
    """A token that ends the answer is neither shown nor kept."""
    conversation = talk(passes=3)
    ids, _ = _answer(conversation, "the cat", 8)
    end = next(at for at, token in enumerate(ids) if at and token not in ids[:at])
    other = talk(passes=3)
    image = other.session.image
    other.session.image = dataclasses.replace(
        image, shape=dataclasses.replace(image.shape, eos=(ids[end],)))
    assert _answer(other, "the cat", 8)[0] == ids[:end]
    _answer(other, "and")
    missing = len(other.tokenizer.encode_plain("<end><user>and<end>"))
    assert other.prefilled in (missing, missing + 1)


def test_answer_that_was_cut_is_encoded_again(talk):
    conversation, fresh = talk(), talk()
    encode = conversation.tokenizer.encode_plain
    text = conversation.tokenizer.decode(list(conversation.ask("the cat", 8, GREEDY)))
    conversation.answered(text[:2])
    found, _ = _answer(conversation, "and")
    whole = encode(f"<user>the cat<end>{text[:2]}<end><user>and<end>")
    assert found == list(fresh.session.generate(whole, 4))
    # The question, at least, was in the cache.
    assert conversation.prefilled <= len(whole) - len(encode("<user>the cat<end>"))


def test_full_context(talk):
    conversation = talk(context=24)
    first, _ = _answer(conversation, "the cat")
    before = conversation.session.position, list(conversation.messages)
    with pytest.raises(HeadraceError, match="but the context has 24: begin a new one"):
        conversation.ask("abcdefghijklmnopqrstuvwxyz", 4, GREEDY)
    # The question is forgotten; a shorter one is answered, as far as there is room.
    assert before == (conversation.session.position, conversation.messages)
    used = len(conversation.tokenizer.encode_plain("<user>the cat<end><end><user>ab<end>"))
    assert 0 < len(_answer(conversation, "ab", 40)[0]) <= 24 - used - len(first)


@pytest.mark.parametrize("source, text", [
    ("{% for %}", "is not one of Jinja: "), ("{{ raise_exception('no system') }}", "no system"),
    ("{{ 1 / 0 }}", "ZeroDivisionError"), ("{{ messages[9].content }}", "UndefinedError"),
    ("{{ ''.__class__.__mro__ }}", "SecurityError"), ("{{ messages.append(1) }}", "SecurityError"),
    ("{% for i in range(90000) %}{{ 'x' * 100 }}{% endfor %}", "more than 4,194,304 characters"),
])
def test_failing_templates(source, text):
    with pytest.raises(HeadraceError, match=text):
        ChatTemplate(source).text([{"role": "user", "content": "a"}])


def test_what_templates_may_use():
    source = ("{{ bos_token }}{% for m in messages %}{% if loop.index > 2 %}{% break %}{% endif %}"
              "\n{{ m | tojson }}{% endfor %}\n{% if add_generation_prompt %}{{ eos_token }}"
              "{{ strftime_now('%Y') | length }}{% endif %}")
    text = ChatTemplate(source, bos="<s>", eos="</s>").text(
        [{"role": "user", "content": "<é>"}] * 3)
    message = '{"role": "user", "content": "<é>"}'
    assert text == f"<s>{message}{message}</s>4"      # newlines behind blocks are dropped


@pytest.fixture
def command(capsys, monkeypatch):
    def call(lines, *arguments, code=0):
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        with pytest.raises(SystemExit) as caught:
            main(["chat", *map(str, arguments)])
        output = capsys.readouterr()
        assert caught.value.code == code, output.err
        assert "Traceback" not in output.err
        return output
    return call


def test_command(command, chat_file):
    file = chat_file()
    options = (file, "--tokens", "6", "--temperature", "0", "-q")
    first, second = command("the cat\nand a\n", *options).out.splitlines()
    assert first and second
    assert command("the cat\n\n/exit\nand a", *options).out.splitlines() == [first]
    assert command("the cat\n/clear\nthe cat", *options).out.splitlines() == [first, first]
    warm = (file, "--tokens", "9", "--temperature", "30", "-q", "--seed")
    answers = [command("the cat\n", *warm, seed).out for seed in (1, 1, 2)]
    assert answers[0] == answers[1] != answers[2]
    whole = answers[0].rstrip("\n")
    stopped = command("the cat\n", *warm, 1, "--stop", whole[3:5]).out.rstrip("\n")
    assert stopped == whole[:whole.index(whole[3:5])]
    assert "seed 7" in command("", file, "--seed", "7").err


def test_command_refuses(command, chat_file):
    for template, text in (("{{ raise_exception('roles must alternate') }}", "must alternate"),
                           ("{% if %}", "not one of Jinja")):
        assert text in command("a\n", chat_file(template), "-q", code=2).err
    file = chat_file()
    for options, text in ((("--tokens", "0"), "--tokens 0"), (("--top-p", "2"), "top_p is 2"),
                          (("--temperature", "0", "--seed", "1"), "temperature of 0"),
                          (("--stop", ""), "stop string is empty")):
        assert text in command("a\n", file, *options, code=2).err
    without = write_gguf(file.with_name("n.gguf"), drop=("tokenizer.chat_template",))
    assert "no chat template" in command("a\n", without, code=2).err
