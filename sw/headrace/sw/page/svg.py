"""Small pieces of SVG: text goes through :func:`markupsafe.escape`, numbers are short."""

from markupsafe import Markup, escape

from ..trace import OPERATIONS


__all__ = ["CLASS_OF", "bar", "element", "number"]


#: Names of operations as CSS classes: the style sheet has their colours.
CLASS_OF = {name: f"op-{index}" for index, name in enumerate(OPERATIONS)}


def number(value: float) -> str:
    """A coordinate: two digits behind the point at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".")


def element(name: str, content: str | Markup = "", /, **attributes: str | float) -> Markup:
    """An element; underscores in names of attributes become hyphens, `cls` is ``class``."""
    pairs = []
    for key, value in attributes.items():
        text = value if isinstance(value, str) else number(value)
        pairs.append(Markup(' {}="{}"').format("class" if key == "cls" else key.replace("_", "-"),
                                               text))
    head = Markup("<{}{}").format(Markup(name), Markup("").join(pairs))
    if not content:
        return head + Markup("/>")
    return head + Markup(">") + escape(content) + Markup("</{}>").format(Markup(name))


def bar(share: float) -> Markup:
    """A bar of a table, `share` of its width; the number stands beside it."""
    return element("svg", element("rect", width=100 * min(1.0, share), height=1.0, cls="bar"),
                   viewBox="0 0 100 1", preserveAspectRatio="none", aria_hidden="true",
                   cls="bar-box")
