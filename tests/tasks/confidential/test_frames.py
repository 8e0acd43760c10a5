"""A message arrives as it was sent, or not at all."""

import json
import socket
import struct
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.confidential import frames
from tasks.confidential.frames import Gone, Malformed, send

ARRAYS = {
    "counts": np.arange(-3, 3, dtype=np.int64).reshape(2, 3),
    "one": np.array(2.5),
    "none": np.zeros((0, 4), np.uint16),
    "text": np.frombuffer(b"abc", np.uint8),
    "strided": np.arange(10, dtype=np.int64)[::3],
    "big": np.arange(4, dtype=">i8"),
}


def receive(of, most=frames.MOST_BYTES):
    return frames.receive(of, lambda _: most)


@pytest.fixture
def ends():
    here, there = socket.socketpair()
    with here, there:
        yield here, there


def test_a_message_arrives_with_its_blocks(ends):
    send(ends[0], {"type": "ask", "n": 1}, ARRAYS)
    message, found = receive(ends[1])
    assert message == {"type": "ask", "n": 1}
    assert list(found) == list(ARRAYS)
    for name, array in ARRAYS.items():
        assert found[name].shape == array.shape
        assert found[name].tolist() == array.tolist()


def test_large_blocks_arrive_while_they_are_sent(ends):
    large = np.arange(1 << 20)
    thread = threading.Thread(target=send, args=(ends[0], {"type": "x"}, {"large": large}))
    thread.start()
    assert np.array_equal(receive(ends[1])[1]["large"], large)
    thread.join()


def framed(text, content=b"", *, length=None, size=None):
    lengths = (len(text) if length is None else length, len(content) if size is None else size)
    return struct.pack("<IQ", *lengths) + text + content


LISTED = json.dumps({"type": "x", "blocks": [["a", "<i8", [2]]]}).encode()


@pytest.mark.parametrize(
    "sent",
    [
        framed(b"no json"),
        framed(b"[]"),
        framed(b"{}"),
        framed(b'{"blocks": 3}'),
        framed(b'{"blocks": [["a", "<i8", [1, -1]]]}'),
        framed(b'{"blocks": [["a", "<i8", [true]]]}', bytes(8)),
        framed(b'{"blocks": [["a", "|O", [1]]]}', bytes(8)),
        framed(LISTED, bytes(8)),
        framed(LISTED, bytes(24)),
        framed(LISTED, bytes(16), length=frames.MOST_JSON + 1),
        framed(LISTED, bytes(16), size=frames.MOST_BYTES + 1),
        framed(b'{"blocks": [["a", "<i8", [4294967296, 4294967296]]]}', bytes(8)),
        framed(b"[" * 100_000),
    ],
)
def test_what_is_no_frame_is_refused_before_memory_is_taken(ends, sent):
    ends[0].sendall(sent)
    with pytest.raises(Malformed):
        receive(ends[1])


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_refused(content):
    here, there = socket.socketpair()
    with here, there:
        here.sendall(content)
        here.close()
        with pytest.raises((Malformed, Gone)):
            receive(there)


def test_a_message_that_ends_early_is_no_message(ends):
    ends[0].sendall(framed(LISTED, bytes(16))[:-1])
    ends[0].close()
    with pytest.raises(Gone):
        receive(ends[1])


def test_a_message_that_is_too_large_is_not_sent(ends):
    with pytest.raises(Malformed):
        send(ends[0], {"type": "x" * frames.MOST_JSON})
    ends[0].setblocking(False)
    ends[1].setblocking(False)
    with pytest.raises(Gone):
        receive(ends[1])


def test_blocks_that_a_message_may_not_have_are_not_read(ends):
    announced = json.dumps({"type": "x", "blocks": [["a", "<i8", [1 << 30]]]}).encode()
    ends[0].sendall(framed(announced, size=8 << 30))
    with pytest.raises(Malformed, match="more blocks"):
        receive(ends[1], 0)
