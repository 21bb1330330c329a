"""The strings of a Puppet: what its registers mean."""

__all__ = ["Strings"]


class Strings:
    """Moves a Puppet: its registers by name."""

    FULL_SIZE, INCR = 3, 1

    def __init__(self, simulation):
        self.simulation = simulation
        self.memory = simulation.memory

    def address(self, write, addr, beats=1, size=FULL_SIZE, burst=INCR, ident=0, go=True):
        """Offer an address, or only prepare it."""
        base = 0x10 if write else 0
        self.simulation.write_csr(base, addr)
        self.simulation.write_csr(base + 4, (beats - 1) | size << 8 | burst << 12 | ident << 16)
        if go:
            self.simulation.write_csr(base + 8, 1)

    def data(self, word=0, strobe=0xFF, last=True):
        """Offer one beat of write data: `word` in both halves of the bus."""
        self.simulation.write_csr(0x20, word)
        self.simulation.write_csr(0x24, strobe)
        self.simulation.write_csr(0x28, 1 | last << 1)

    def accept(self, reads=True, writes=True):
        """Raise RREADY and BREADY, or lower them."""
        self.simulation.write_csr(0x30, reads | writes << 1)

    def wait(self, cycles=100):
        """Let time pass."""
        self.simulation.run(cycles, until_irq=False)

    @property
    def last_read(self):
        """Response, last and ID of the last beat read."""
        value = self.simulation.read_csr(0x40)
        return value & 3, value >> 2 & 1, value >> 4

    @property
    def last_data(self):
        """Low word of the last beat read."""
        return self.simulation.read_csr(0x44)

    @property
    def beats(self):
        """Beats read so far."""
        return self.simulation.read_csr(0x48)

    @property
    def last_response(self):
        """Response and ID of the last write."""
        value = self.simulation.read_csr(0x4C)
        return value & 3, value >> 4

    @property
    def responses(self):
        """Write responses so far."""
        return self.simulation.read_csr(0x50)

    def history(self, count):
        """Low four data bits of the last beats read, up to eight, the oldest first."""
        value = self.simulation.read_csr(0x54)
        return [value >> 4 * beat & 15 for beat in reversed(range(count))]
