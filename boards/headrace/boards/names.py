"""Names for the cells of a netlist, from the signals that they compute."""

from collections import Counter, deque


__all__ = ["name_cells"]


def name_cells(module: dict) -> dict[str, str]:
    """Name every cell of a flat netlist after a signal of the design.

    A cell that drives a named signal is named for it. Any other is named as a reader of its
    outputs, the nearest one that has a name, and one that nothing named reads as its nearest
    driver. Yosys' ``autoname`` does the same, and takes longer than the rest of the synthesis.

    Parameters
    ----------
    module : dict
        Module of the JSON that Yosys writes: `cells` and `netnames`.

    Returns
    -------
    dict of str to str
        New names by old name: the signal, the type of the cell, and a number behind the first one.
    """
    signals: dict[int, str] = {}
    for name, net in module["netnames"].items():
        if net["hide_name"]:
            continue
        for bit in net["bits"]:
            # The shortest one: names of the same signal in other units have more levels.
            if isinstance(bit, int) and (bit not in signals or len(name) < len(signals[bit])):
                signals[bit] = name

    drivers: dict[int, str] = {}
    readers: dict[int, list[str]] = {}
    inputs: dict[str, list[int]] = {}
    outputs: dict[str, list[int]] = {}
    roots: dict[str, str] = {}
    for cell, facts in module["cells"].items():
        directions = facts.get("port_directions", {})
        inputs[cell], outputs[cell] = [], []
        for port, bits in facts["connections"].items():
            out = directions.get(port) == "output"
            for bit in bits:
                if not isinstance(bit, int):
                    continue
                (outputs if out else inputs)[cell].append(bit)
                if out:
                    drivers[bit] = cell
                else:
                    readers.setdefault(bit, []).append(cell)
        if not cell.startswith("$"):
            roots[cell] = cell
            continue
        named = [signals[bit] for bit in outputs[cell] if bit in signals]
        if named:
            roots[cell] = min(named, key=lambda name: (len(name), name))

    def spread(neighbours):
        queue = deque(roots)
        while queue:
            cell = queue.popleft()
            for other in neighbours(cell):
                if other not in roots:
                    roots[other] = roots[cell]
                    queue.append(other)

    spread(lambda cell: [drivers[bit] for bit in inputs[cell] if bit in drivers])
    spread(lambda cell: [reader for bit in outputs[cell] for reader in readers.get(bit, ())])

    names: dict[str, str] = {}
    taken: Counter = Counter()
    for cell, facts in module["cells"].items():
        root = roots.get(cell, cell)
        if root == cell:
            names[cell] = cell
            continue
        name = f"{root}_{facts['type'].lstrip('$')}"
        taken[name] += 1
        names[cell] = name if taken[name] == 1 else f"{name}_{taken[name]}"
    return names
