"""A board in plain Python: the uartbone protocol in front of words."""

from collections import defaultdict


__all__ = ["WordBoard"]


class WordBoard:
    """Words at byte addresses, behind the bytes of the link.

    Attributes
    ----------
    words : dict of int to int
        Content.
    silent : bool
        Reads are not answered.
    """

    unsent = 0

    def __init__(self):
        self.words: dict[int, int] = defaultdict(int)
        self.silent = False
        self._in, self._out = bytearray(), bytearray()

    def write(self, data):
        self._in += data

    def run(self, max_cycles, received=0):
        while len(self._in) >= 6:
            command, count = self._in[:2]
            assert command in (1, 2, 3, 4), f"command {command}"
            step = 4 * (command < 3)
            addr = 4 * int.from_bytes(self._in[2:6], "big")
            if command % 2:
                if len(self._in) < 6 + 4 * count:
                    return False
                for index in range(count):
                    word = self._in[6 + 4 * index:10 + 4 * index]
                    self.words[addr + step * index] = int.from_bytes(word, "big")
                del self._in[:6 + 4 * count]
            else:
                for index in range(0 if self.silent else count):
                    self._out += self.words[addr + step * index].to_bytes(4, "big")
                del self._in[:6]
        return len(self._out) >= received > 0

    def read(self, size, max_cycles):
        self.run(max_cycles)
        found = bytes(self._out[:size])
        del self._out[:size]
        return found

    def reset(self):
        self._in.clear()
        self._out.clear()
