"""Tables as plain text and as HTML, and numbers with units."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

__all__ = [
    "format_bytes",
    "format_seconds",
    "format_table",
    "html_list",
    "html_table",
    "plural",
    "skipped_lines",
]

_UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def format_bytes(n_bytes: float) -> str:
    """Return a number of bytes with three digits and a decimal unit.

    Examples
    --------
    >>> from femtobarn._shared.repr import format_bytes
    >>> format_bytes(512), format_bytes(1536), format_bytes(2.5e9)
    ('512 B', '1.54 kB', '2.50 GB')
    """
    if n_bytes < 1000:
        return f"{n_bytes:.0f} B"
    value, unit = float(n_bytes), 0
    while value >= 999.5 and unit < len(_UNITS) - 1:
        value /= 1000
        unit += 1
    digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:.{digits}f} {_UNITS[unit]}"


def format_seconds(seconds: float) -> str:
    """Return a time with three digits and a unit.

    Examples
    --------
    >>> from femtobarn._shared.repr import format_seconds
    >>> format_seconds(0.01234), format_seconds(75)
    ('12.3 ms', '75.0 s')
    """
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size or unit == "µs":
            return f"{seconds / size:.3g} {unit}" if seconds / size < 10 else f"{seconds / size:.1f} {unit}"
    raise AssertionError


def plural(n: int, noun: str) -> str:
    """Return a number with its noun, as "1 file" and "2 files".

    Examples
    --------
    >>> from femtobarn._shared.repr import plural
    >>> plural(12000, "entry"), plural(1, "file")
    ('12,000 entries', '1 file')
    """
    if n != 1:
        noun = noun[:-1] + "ies" if noun.endswith("y") else noun + ("es" if noun.endswith("ch") else "s")
    return f"{n:,} {noun}"


def shortened(names: Sequence[str], most: int = 5) -> str:
    """Return names separated by commas; of a long list, the first names and the number of the others.

    Examples
    --------
    >>> from femtobarn._shared.repr import shortened
    >>> shortened(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def format_table(
    header: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: Sequence[int] = (),
    max_cell: int | None = None,
    max_width: int | None = None,
) -> str:
    """Return a table as plain text.

    Parameters
    ----------
    header : sequence of str
        Titles of the columns.
    rows : iterable of sequence of str
        The cells.
    right : sequence of int
        Columns that are aligned to the right.
    max_cell : int, optional
        Cells are shortened to this number of characters.
    max_width : int, optional
        Lines are cut to this number of characters.

    Returns
    -------
    str
        Lines without a newline at the end.
    """
    cells = [[_shortened(cell, max_cell) for cell in row] for row in (header, *rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = []
    for row in cells:
        sized = enumerate(zip(row, widths, strict=True))
        padded = [cell.rjust(width) if i in right else cell.ljust(width) for i, (cell, width) in sized]
        lines.append("  ".join(padded).rstrip())
    lines.insert(1, "  ".join("─" * width for width in widths))
    if max_width is not None:
        lines = [line if len(line) <= max_width else line[: max_width - 1] + "…" for line in lines]
    return "\n".join(lines)


def _shortened(cell: str, length: int | None) -> str:
    """Leave out the middle of a long string: types differ at their ends as often as at their beginnings."""
    if length is None or len(cell) <= length:
        return cell
    tail = (length - 1) // 3
    return cell[: length - 1 - tail] + "…" + cell[-tail:]


def skipped_lines(skipped: Sequence[tuple[str, str]], max_width: int | None = None) -> list[str]:
    """Return a line for each field that is skipped.

    Examples
    --------
    >>> from femtobarn._shared.repr import skipped_lines
    >>> skipped_lines([("Jet_pt", "not in b.root")])
    ['skipped: Jet_pt (not in b.root)']
    """
    lines = [f"skipped: {name} ({reason})" for name, reason in skipped]
    if max_width is not None:
        lines = [line if len(line) <= max_width else line[: max_width - 1] + "…" for line in lines]
    return lines


def html_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Return a table as HTML, its cells escaped."""

    def line(tag: str, row: Sequence[str]) -> str:
        sides = ["right" if i in right else "left" for i in range(len(row))]
        cells = [
            f'<{tag} style="text-align: {side}; white-space: pre">{html.escape(cell)}</{tag}>'
            for side, cell in zip(sides, row, strict=True)
        ]
        return f"<tr>{''.join(cells)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<table><thead>{line('th', header)}</thead><tbody>{body}</tbody></table>"


# Hides the rows of the table below a search box that do not contain what was typed. Where scripts do not run, all rows
# are shown.
_SEARCH = (
    "const t=this.value.toLowerCase(),b=this.nextElementSibling.querySelectorAll('tbody tr');"
    "for(const r of b)r.style.display=r.textContent.toLowerCase().includes(t)?'':'none'"
)

# notebooks have rules of their own for cells
_STYLE = (
    "<style>.fb-list th,.fb-list td{text-align:left!important;white-space:pre!important}"
    ".fb-list .fb-right{text-align:right!important}"
    ".fb-list>div{max-height:30em;overflow:auto;width:fit-content;max-width:100%}</style>"
)


def html_list(header: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> str:
    """Return a long table as HTML, its cells escaped: it scrolls, and a box searches it. Needs no network.

    Examples
    --------
    >>> from femtobarn._shared.repr import html_list
    >>> text = html_list(("name",), [[str(i)] for i in range(2000)])
    >>> 'placeholder="search 2,000 rows"' in text, len(text) < 60_000
    (True, True)
    """

    def line(tag: str, row: Sequence[str]) -> str:
        classes = [" class=fb-right" if i in right else "" for i in range(len(row))]
        return "".join(f"<{tag}{it}>{html.escape(cell)}</{tag}>" for it, cell in zip(classes, row, strict=True))

    rows = list(rows)
    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    search = f'<input type="search" placeholder="search {len(rows):,} rows" aria-label="search" oninput="{_SEARCH}">'
    box = search if len(rows) > _FEW_ROWS else ""
    table = f"<table><thead><tr>{line('th', header)}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div class=fb-list>{_STYLE}{box}<div>{table}</div></div>"


# tables without a search box
_FEW_ROWS = 10
